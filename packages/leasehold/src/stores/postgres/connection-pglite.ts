/**
 * PostgreSQL in this process: PGlite over a directory that no other process has open, or the user's
 * instance.
 */

import {
  type CallOptions,
  ClosedError,
  loadDriver,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../core/index.js";
import { type Clock, type Env, nextTurn, withTimeout } from "../../env/index.js";
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
import { storeError } from "./failures.js";
import { backgroundTimers } from "./pglite-timers.js";

/** Types that PGlite would parse differently from connection.ts. */
const OTHER_TYPES = [16, 17, 20, 21, 23, 114, 700, 701, 1082, 1114, 1184, 1700, 3802];
const OPTIONS = { parsers: Object.fromEntries(OTHER_TYPES.map((oid) => [oid, decoderOf(oid)])) };

/**
 * Disables the progress timer of crash recovery. After opening a database that was not closed, it would
 * fire forever.
 */
const START_PARAMS = ["-c", "log_startup_progress_interval=0"];

/**
 * @param directory created if missing; empty: in memory, gone with the process
 */
export async function pgliteBackend(directory: string, env: Env): Promise<RawBackend> {
  const PGlite = await loadDriver(
    "@electric-sql/pglite",
    () => import("@electric-sql/pglite"),
    ({ PGlite }) => PGlite,
  );
  const lock = directory === "" ? null : await lockDirectory(directory, env);
  const startParams = [...PGlite.defaultStartParams, ...START_PARAMS];
  const open = async () => {
    const db = await PGlite.create({
      startParams,
      extensions: { backgroundTimers: backgroundTimers() },
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
    throw new StoreMisconfiguredError(`PGlite cannot open "${directory}": ${error}`, error);
  });
  return backendOf(db, directory === "" ? "PGlite in memory" : `PGlite in ${directory}`, {
    clock: env.clock,
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

function backendOf(
  db: PgliteInstance,
  name: string,
  { clock, close }: { clock: Clock; close: () => Promise<void> },
): RawBackend {
  const turns = new Turns();
  return {
    name,
    general: pgliteSql(db, clock, () => turns.take("general")),
    control: pgliteSql(db, clock, () => turns.take("control")),
    async listen(channel, onPayload) {
      const stop = await db.listen(channel, onPayload);
      // There is nothing to stop in an instance that its owner has closed.
      return { stop: async () => (db.closed ? undefined : stop()) };
    },
    close,
  };
}

/** Runs one statement at a time, renewals first. PGlite itself has no priorities. */
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

function pgliteSql(db: PgliteInstance, clock: Clock, turn: () => Promise<() => void>): Sql {
  return {
    query: (text, values, options) =>
      within(clock, options, async () => {
        const end = await turn();
        try {
          return await sessionOf(db).query(text, values);
        } finally {
          end();
        }
      }),
    transaction: (work, options) =>
      within(clock, options, () => db.transaction((tx) => work(sessionOf(tx)))),
  };

  function sessionOf(queryable: PgliteSession): Session {
    return {
      async query<Row>(text: string, values: readonly Parameter[] = []) {
        if (db.closed) throw new ClosedError("the PGlite database");
        return (await queryable.query(text, [...values], OPTIONS)).rows as Row[];
      },
    };
  }
}

/** A statement in this process continues after a timeout, so its outcome is unknown. */
function within<T>(
  clock: Clock,
  { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {},
  work: () => Promise<T>,
): Promise<T> {
  const answer = work().catch((error: unknown) => {
    throw storeError(error, true);
  });
  return withTimeout(clock, timeoutMs, answer, () => {
    const what = `PGlite: no response within ${Math.round(timeoutMs)} ms`;
    throw new StoreUnavailableError(what, { outcome: "unknown" });
  });
}
