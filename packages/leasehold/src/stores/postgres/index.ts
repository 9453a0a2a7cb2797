/** Leases and tasks in PostgreSQL: a server by URL, the user's pool, or PGlite in this process. */
import { existsSync } from "node:fs";
import type { Backing, Control, GrantHistory } from "../../control/index.js";
import { type Env, reasonOf } from "../../env/index.js";
import {
  checkMethods,
  checkObject,
  checkUrl,
  InvalidOptionError,
  type Key,
  kindOf,
  type LeaseholdError,
  type LeaseStore,
  StoreMisconfiguredError,
} from "../../lease/index.js";
import type { OnceStore } from "../../once/port.js";
import { openServer } from "../../store-kit/opening-server.js";
import { pathProblem } from "../../store-kit/url-parameters.js";
import type { TaskStore } from "../../tasks/port.js";
import type { ScheduleStore } from "../../tasks/schedules/port.js";
import type { Diagnosis, MigrationStep, QueuedWaiter } from "../source.js";
import type { Backend, RawBackend } from "./connection.js";
import { readAddress } from "./connection-address.js";
import type { PgliteInstance, PgPool } from "./connection-drivers.js";
import { ownPgliteBackend, pgliteBackend } from "./connection-pglite.js";
import { poolBackend, serverBackend } from "./connection-server.js";
import { backingIn, postgresControl } from "./control.js";
import { PostgresGrantHistory } from "./control-history.js";
import { diagnosePostgres } from "./diagnose.js";
import { migrate, planOf, stepsOf } from "./migrate.js";
import { PostgresOnceStore } from "./once.js";
import { PostgresScheduleStore } from "./schedules.js";
import { inSchema, schemaNamed } from "./schema.js";
import { checkEncoding, checkSettings, checkWritable } from "./session-checks.js";
import type { Connections } from "./shared.js";
import { PostgresLeaseStore } from "./store.js";
import { PostgresTaskStore } from "./tasks.js";
import { WAITERS } from "./wait-queue.js";
import { Listener } from "./watch.js";

export type {
  PgClient,
  PgliteInstance,
  PgliteSession,
  PgPool,
  PgPoolClient,
} from "./connection-drivers.js";

/** The location of the database. */
export type PostgresSource =
  /** `postgres://user:password@host:port/database`, with pg's parameters; `watch=poll` and `schema=NAME` too. */
  (
    | { readonly url: string | URL }
    /** A pg pool, which the caller closes. Set `watch: "poll"` if the pool shares sessions. */
    | { readonly pool: PgPool; readonly watch?: "push" | "poll" }
    /** A directory for PGlite, or `""` for an in-memory database. */
    | { readonly directory: string }
    /** A PGlite instance, which the caller closes. */
    | { readonly db: PgliteInstance }
  ) &
    InSchema;

/** Where the tables are. */
export interface InSchema {
  /**
   * The schema of the tables, which `leasehold migrate` creates: 1 to 53 of `a-z`, `0-9` and `_`. Default
   * `leasehold`. Stores in two schemas of one database do not see each other's leases and tasks.
   */
  readonly schema?: string;
}

/** One open database: its stores share connections and the subscription. */
export interface PostgresDatabase {
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
  readonly schedules: ScheduleStore;
  readonly once: OnceStore;
  readonly history: GrantHistory;
  readonly control: Control;
  readonly backing: Backing;
  diagnose(): Promise<readonly Diagnosis[]>;
  waiters(key: Key): Promise<readonly QueuedWaiter[]>;
  /** Resolves when PGlite has stopped, as on a full disk, with what all later calls reject with. */
  readonly stopped?: Promise<LeaseholdError>;
  /** @internal */
  readonly connections: Connections;
  close(): Promise<void>;
}

/**
 * Connects, brings the schema up to date and opens the stores, for programs that serve or test them. Clients use
 * `connect(postgres(...))`. The caller closes the database.
 * @param env the clock, randomness and logger of the stores
 * @param timeoutMs how long a connection may take to open, in milliseconds, at least 5,000; default 5,000
 * @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED
 * @example
 * ```ts
 * import { openPostgres } from "leasehold/stores/postgres";
 * import { manualEnv } from "leasehold/testing";
 *
 * const database = await openPostgres({ directory: "" }, manualEnv());
 * console.log(database.leases.capabilities.ttl);
 * await database.close();
 * ```
 */
export function openPostgres(
  source: PostgresSource,
  env: Env,
  timeoutMs?: number,
): Promise<PostgresDatabase> {
  const open = (givenUp: AbortSignal) => openDatabase(source, env, givenUp, timeoutMs);
  return atServer(source, env, open, (late) => late.close());
}

/** Reports a server of another kind, if the source names one. */
async function atServer<Opened>(
  source: PostgresSource,
  env: Env,
  open: (givenUp: AbortSignal) => Promise<Opened>,
  close: (late: Opened) => Promise<unknown>,
): Promise<Opened> {
  const address = "url" in source ? readAddress(String(source.url)).first : null;
  const givenUp = new AbortController();
  const opening = open(givenUp.signal);
  if (!address) return opening;
  const expected = { addresses: [address], protocol: "PostgreSQL" } as const;
  return openServer(expected, env, opening, close, () => givenUp.abort());
}

async function openDatabase(
  source: PostgresSource,
  env: Env,
  givenUp: AbortSignal,
  timeoutMs: number | undefined,
): Promise<PostgresDatabase> {
  const backend = await openBackend(source, env, givenUp, timeoutMs);
  try {
    await checkSettings(backend.general);
    await migrate(backend.general, backend.schema);
    const listener = await Listener.open(backend, env);
    // Notifications arrive only in a session that the store does not share.
    if (listener.mode === "push") backend.prepare?.();
    const connections: Connections = { backend, listener, env };
    let closing: Promise<void> | undefined;
    const leases = new PostgresLeaseStore(connections);
    return {
      leases,
      once: new PostgresOnceStore(connections, leases),
      tasks: new PostgresTaskStore(connections),
      schedules: new PostgresScheduleStore(connections),
      history: new PostgresGrantHistory(connections),
      control: postgresControl(connections),
      backing: backingIn(backend.general),
      diagnose: () => diagnosePostgres(connections),
      waiters: ({ namespace, resource }) =>
        backend.general.query<{ holder: string; grantId: string }>(WAITERS, [namespace, resource]),
      ...(backend.stopped && { stopped: backend.stopped }),
      connections,
      close() {
        closing ??= listener.close().then(() => backend.close());
        return closing;
      },
    };
  } catch (error) {
    await backend.close();
    throw error;
  }
}

/**
 * Brings the schema of a database up to date and closes the connection. Programs without an Env of their own use
 * `migrate` of leasehold.
 * @param own statements of the program for tables of its own in the same schema, run after the steps. Each must be one
 *   that may be repeated
 * @returns the names of the applied steps, oldest first
 * @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED
 * @example
 * ```ts
 * import { migratePostgres } from "leasehold/stores/postgres";
 * import { manualEnv } from "leasehold/testing";
 *
 * console.log(await migratePostgres({ directory: "" }, manualEnv()));
 * ```
 */
export function migratePostgres(
  source: PostgresSource,
  env: Env,
  own: readonly string[] = [],
): Promise<readonly string[]> {
  return atServer(
    source,
    env,
    (givenUp) => migrateDatabase(source, env, givenUp, own),
    async () => {},
  );
}

async function migrateDatabase(
  source: PostgresSource,
  env: Env,
  givenUp: AbortSignal,
  own: readonly string[],
): Promise<readonly string[]> {
  const backend = await openBackend(source, env, givenUp);
  try {
    await checkWritable(backend.general);
    const steps = await migrate(backend.general, backend.schema);
    for (const text of own) await backend.general.query(text);
    return steps;
  } finally {
    await backend.close();
  }
}

/**
 * The steps of {@link migratePostgres}, applied and remaining, without taking any.
 * @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED
 * @example
 * ```ts
 * import { planPostgres } from "leasehold/stores/postgres";
 * import { manualEnv } from "leasehold/testing";
 *
 * const steps = await planPostgres({ directory: "./not-created" }, manualEnv());
 * console.log(steps.filter(({ appliedAt }) => appliedAt === null).map(({ name }) => name));
 * ```
 */
export function planPostgres(source: PostgresSource, env: Env): Promise<readonly MigrationStep[]> {
  return atServer(
    source,
    env,
    (givenUp) => planDatabase(source, env, givenUp),
    async () => {},
  );
}

async function planDatabase(
  source: PostgresSource,
  env: Env,
  givenUp: AbortSignal,
): Promise<readonly MigrationStep[]> {
  // To open PGlite would create the database.
  if ("directory" in source && !existsSync(source.directory)) {
    return stepsOf(schemaNamed(source.schema), []);
  }
  const backend = await openBackend(source, env, givenUp);
  try {
    await checkEncoding(backend.general);
    return await planOf(backend.general, backend.schema);
  } finally {
    await backend.close();
  }
}

async function openBackend(
  source: PostgresSource,
  env: Env,
  givenUp?: AbortSignal,
  timeoutMs?: number,
): Promise<Backend> {
  const schema = schemaNamed(
    source.schema ?? ("url" in source ? readAddress(String(source.url)).schema : undefined),
  );
  return inSchema(await openRaw(source, env, givenUp, timeoutMs), schema);
}

function openRaw(
  source: PostgresSource,
  env: Env,
  givenUp: AbortSignal | undefined,
  timeoutMs: number | undefined,
): Promise<RawBackend> {
  if ("directory" in source) return pgliteBackend(source.directory, env);
  if ("db" in source) {
    const { db } = source;
    // A statement would wait for the start within its own, shorter timeout.
    return Promise.resolve(db.waitReady).then(
      () => ownPgliteBackend(db, env),
      (error) => {
        throw new StoreMisconfiguredError(
          `the given PGlite does not start: ${reasonOf(error)}`,
          error,
        );
      },
    );
  }
  if ("pool" in source)
    return Promise.resolve(poolBackend(source.pool, source.watch ?? "push", env));
  const url = String(source.url);
  return serverBackend(url, env, givenUp, timeoutMs);
}

/** PGlite starts a database in this process: a second or two, up to a minute where others want the processors too. */
const START_TIMEOUT_MS = 60_000;

/** For `connect`: opens the database when it is called. */
export interface PostgresStores {
  /** How long `connect` waits by default, in milliseconds: 60,000 for PGlite, which starts in this process. */
  readonly connectTimeoutMs?: number;
  open(env: Env, timeoutMs?: number): Promise<PostgresDatabase>;
  migrate(env: Env, own?: readonly string[]): Promise<readonly string[]>;
  plan(env: Env): Promise<readonly MigrationStep[]>;
}

function storesOf(source: PostgresSource): PostgresStores {
  return {
    open: (env, timeoutMs) => openPostgres(source, env, timeoutMs),
    migrate: (env, own) => migratePostgres(source, env, own),
    plan: (env) => planPostgres(source, env),
  };
}

/**
 * Leases and tasks in a PostgreSQL server: `postgres({ url })`, or `postgres({ pool })` over a pg pool.
 * The store keeps one connection of the pool for notifications and never closes the pool. Set `watch:
 * "poll"` if the pool leads to PgBouncer in transaction mode. By default the store detects that itself
 * on opening, which takes 2 s. With `schema: "app_leases"`, or `?schema=app_leases` in the URL, the tables are in
 * that schema instead of `leasehold`.
 * @throws (on opening) STORE_UNAVAILABLE, STORE_MISCONFIGURED
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { postgres } from "leasehold/stores/postgres";
 * import pg from "pg";
 *
 * const pool = new pg.Pool({ connectionString: "postgres://localhost/app" });
 * const leasehold = await connect(postgres({ pool }));
 * await leasehold.close();
 * await pool.end();
 * ```
 */
export function postgres(
  source: ({ url: string | URL } | { pool: PgPool; watch?: "push" | "poll" }) & InSchema,
): PostgresStores {
  checkObject("options", source);
  if (!("pool" in source)) checkUrl(source.url);
  else checkMethods("pool", source.pool, ["connect"], "new pg.Pool(...)");
  return storesOf(source);
}

/**
 * Leases and tasks in PGlite, which is PostgreSQL in this process. `pglite({ directory })` opens a
 * database of its own, created if missing and locked against other processes; `""` means in memory.
 * `pglite({ db })` uses the instance that holds your own tables. The store never closes it, and several
 * clients may share it. Use its `transaction()`: a statement of the store between a BEGIN and a COMMIT
 * that you send as statements would join your transaction. PGlite's timers keep a process open, for
 * about 10 s, or forever after a crash. The store prevents that for its own instances; close yours.
 * @throws (on opening) STORE_UNAVAILABLE, STORE_MISCONFIGURED
 * @example
 * ```ts
 * import { PGlite } from "@electric-sql/pglite";
 * import { connect } from "leasehold";
 * import { pglite } from "leasehold/stores/postgres";
 *
 * const db = await PGlite.create();
 * const leasehold = await connect(pglite({ db }));
 * await leasehold.close();
 * await db.close();
 * ```
 */
export function pglite(
  source: ({ directory: string } | { db: PgliteInstance }) & InSchema,
): PostgresStores {
  checkObject("options", source);
  if ("db" in source) {
    checkMethods("db", source.db, ["query", "transaction", "listen"], "await PGlite.create()");
  } else checkDirectory(source.directory);
  return { ...storesOf(source), connectTimeoutMs: START_TIMEOUT_MS };
}

/** @throws INVALID_OPTION for a path that leads elsewhere than it seems to */
function checkDirectory(directory: unknown): void {
  if (typeof directory !== "string") {
    throw new InvalidOptionError("directory", `must be a string, got ${kindOf(directory)}`);
  }
  // PGlite would keep the data elsewhere than where this process locks it, or below the root.
  const problem = /^([a-z]+:\/\/|\/\/[^/])/i.test(directory)
    ? 'must be a path such as ./data or /data, without //; "" is in memory'
    : pathProblem(directory);
  if (problem !== null) throw new InvalidOptionError("directory", problem);
}
