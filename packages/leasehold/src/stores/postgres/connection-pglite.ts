/**
 * PostgreSQL in this process: PGlite over a directory that no other process has open, or the user's
 * instance.
 */

import { type Clock, type Env, nextTurn, reasonOf, withTimeout } from "../../env/index.js";
import {
  type CallOptions,
  ClosedError,
  type LeaseholdError,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../lease/index.js";
import { driverError, driverPart } from "../../store-kit/driver.js";
import {
  DEFAULT_TIMEOUT_MS,
  decoderOf,
  type Parameter,
  type RawBackend,
  type Session,
  type Sql,
} from "./connection.js";
import type { PgliteInstance, PgliteSession } from "./connection-drivers.js";
import { restrictFiles } from "./directory-access.js";
import { lockDirectory } from "./directory-lock.js";
import { isReadOnly, storeError } from "./failures.js";
import { stopsAtAbort } from "./pglite-abort.js";
import { Disk, LOG_PARAMS } from "./pglite-disk.js";
import { backgroundTimers } from "./pglite-timers.js";

/** Types that PGlite would parse differently from connection.ts. */
const OTHER_TYPES = [16, 17, 20, 21, 23, 114, 700, 701, 1082, 1114, 1184, 1700, 3802];
const OPTIONS = { parsers: Object.fromEntries(OTHER_TYPES.map((oid) => [oid, decoderOf(oid)])) };

/**
 * Disables the progress timer of crash recovery. After opening a database that was not closed, it would
 * fire forever.
 */
const START_PARAMS = ["-c", "log_startup_progress_interval=0"];

async function importDriver() {
  try {
    return await import("@electric-sql/pglite");
  } catch (error) {
    throw driverError("@electric-sql/pglite", error);
  }
}

/**
 * @param directory created if missing; empty: in memory, gone with the process
 */
export async function pgliteBackend(directory: string, env: Env): Promise<RawBackend> {
  const PGlite = driverPart("@electric-sql/pglite", (await importDriver()).PGlite);
  const lock = directory === "" ? null : await lockDirectory(directory, env);
  const disk = new Disk(directory, env.clock);
  const end = new End();
  const name = directory === "" ? "PGlite in memory" : `PGlite in ${directory}`;
  const onAbort = () => {
    const what = `${name} has stopped, because PostgreSQL aborted; ${disk.description}`;
    const remedy = "make sure that the disk has space, and start this program again";
    end.stop(new StoreMisconfiguredError(`${what}: ${remedy}`));
  };
  const startParams = [...PGlite.defaultStartParams, ...START_PARAMS, ...LOG_PARAMS];
  const open = async () => {
    disk.checkBeforeOpening();
    const db = await PGlite.create({
      startParams,
      extensions: { backgroundTimers: backgroundTimers(), stopsAtAbort: stopsAtAbort(onAbort) },
      ...(directory === "" ? {} : { dataDir: directory }),
    });
    try {
      if (directory !== "") restrictFiles(directory);
      return db;
    } catch (error) {
      await db.close();
      throw error;
    }
  };
  const db = await open().catch(async (error) => {
    await lock?.release();
    if (error instanceof StoreMisconfiguredError) throw error;
    throw new StoreMisconfiguredError(
      `PGlite cannot open "${directory}": ${reasonOf(error)}`,
      error,
    );
  });
  return backendOf(db, name, {
    clock: env.clock,
    disk,
    end,
    async close() {
      await db.close();
      await lock?.release();
    },
  });
}

/** The instance belongs to the user: the store never closes it. */
export function ownPgliteBackend(db: PgliteInstance, { clock }: Env): RawBackend {
  return backendOf(db, "the user's PGlite", { clock, close: async () => {} });
}

interface Instance {
  readonly clock: Clock;
  readonly close: () => Promise<void>;
  /** Absent for the user's instance: where its data is, and how it ends, is known to the user. */
  readonly disk?: Disk;
  readonly end?: End;
}

function backendOf(db: PgliteInstance, name: string, instance: Instance): RawBackend {
  const { end, close } = instance;
  const turns = new Turns();
  return {
    name,
    general: pgliteSql(db, instance, "general", turns),
    control: pgliteSql(db, instance, "control", turns),
    async listen(channel, onPayload) {
      const stop = await db.listen(channel, onPayload);
      // There is nothing to stop in an instance that its owner has closed.
      return { stop: async () => (db.closed || end?.error ? undefined : stop()) };
    },
    ...(end && { stopped: end.stopped }),
    close,
  };
}

/** Whether PostgreSQL has aborted. */
class End {
  /** Of later calls. */
  error: LeaseholdError | undefined;
  readonly stopped: Promise<LeaseholdError>;
  #settle: (error: LeaseholdError) => void = () => {};

  constructor() {
    this.stopped = new Promise((resolve) => (this.#settle = resolve));
  }

  stop(error: LeaseholdError): void {
    this.error = error;
    this.#settle(error);
  }
}

/** Runs one statement or transaction at a time, renewals first. PGlite itself serves them in the order of their arrival. */
class Turns {
  readonly #waiting: Record<"control" | "general", (() => void)[]> = { control: [], general: [] };
  #taken = false;

  /** Resolves when the caller may run, with the function that ends its slot. */
  async take(lane: "control" | "general"): Promise<() => void> {
    if (this.#taken) await new Promise<void>((resolve) => this.#waiting[lane].push(resolve));
    this.#taken = true;
    // A statement blocks the event loop. This yields first so that requests that arrived meanwhile form
    // one batch; otherwise each request on a socket would become a statement of its own. Renewals do
    // not wait.
    if (lane === "general") await nextTurn();
    return () => {
      const next = this.#waiting.control.shift() ?? this.#waiting.general.shift();
      if (next) next();
      else this.#taken = false;
    };
  }
}

/** Before a statement of a transaction: PostgreSQL refuses those that write. */
const READ_ONLY = "SET TRANSACTION READ ONLY";

function pgliteSql(
  db: PgliteInstance,
  { clock, disk, end }: Instance,
  lane: "control" | "general",
  turns: Turns,
): Sql {
  const isLow = () => lane === "general" && disk?.isLow === true;
  const transaction = <T>(work: (session: Session) => Promise<T>) =>
    db.transaction(async (tx) => {
      const session = sessionOf(tx);
      if (isLow()) await session.query(READ_ONLY);
      return work(session);
    });
  const inTurn = async <T>(work: () => Promise<T>) => {
    const leave = await turns.take(lane);
    try {
      return await work();
    } finally {
      const limiting = disk?.limitLog(sessionOf(db)) ?? Promise.resolve();
      // The next statement reports what is wrong.
      void limiting.catch(() => {}).then(leave);
    }
  };
  return {
    query: (text, values, options) =>
      within(options, () =>
        inTurn(() =>
          isLow()
            ? transaction((session) => session.query(text, values))
            : sessionOf(db).query(text, values),
        ),
      ),
    transaction: (work, options) => within(options, () => inTurn(() => transaction(work))),
  };

  function sessionOf(queryable: PgliteSession): Session {
    return {
      async query<Row>(text: string, values: readonly Parameter[] = []) {
        if (end?.error) throw end.error;
        if (db.closed) throw new ClosedError("the PGlite database");
        return (await queryable.query(text, [...values], OPTIONS)).rows as Row[];
      },
    };
  }

  /** A statement in this process continues after a timeout, so its outcome is unknown. */
  async function within<T>(
    { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {},
    work: () => Promise<T>,
  ): Promise<T> {
    if (end?.error) throw end.error;
    const answer = work().catch((error: unknown) => {
      if (disk && isReadOnly(error)) throw disk.refusal(error);
      if (!end?.error || error === end.error) throw storeError(error, true);
      throw new StoreUnavailableError(end.error.message, { outcome: "unknown", cause: error });
    });
    return withTimeout(clock, timeoutMs, answer, () => {
      const what = `PGlite: no response within ${Math.round(timeoutMs)} ms`;
      throw new StoreUnavailableError(what, { outcome: "unknown" });
    });
  }
}
