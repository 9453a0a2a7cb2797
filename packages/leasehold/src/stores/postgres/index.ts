/** Leases and tasks in PostgreSQL: a server by URL, the user's pool, or PGlite in this process. */
import type { Control, GrantHistory } from "../../control/index.js";
import {
  checkMethods,
  checkObject,
  checkUrl,
  InvalidOptionError,
  type Key,
  kindOf,
  type LeaseStore,
  openServer,
  StoreMisconfiguredError,
} from "../../core/index.js";
import type { Env } from "../../env/index.js";
import type { GeneratorState, TaskStore } from "../../tasks/port.js";
import type { Diagnosis, QueuedWaiter } from "../source.js";
import type { Backend, Sql } from "./connection.js";
import type { PgliteInstance, PgPool } from "./connection-drivers.js";
import { ownPgliteBackend, pgliteBackend } from "./connection-pglite.js";
import { addressOf, poolBackend, serverBackend } from "./connection-server.js";
import { postgresControl } from "./control.js";
import { PostgresGeneratorState } from "./control-generator.js";
import { PostgresGrantHistory } from "./control-history.js";
import { diagnosePostgres } from "./diagnose.js";
import { migrate } from "./migrate.js";
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
  /** `postgres://user:password@host:port/database`, with pg's parameters; `watch=poll` too. */
  | { readonly url: string | URL }
  /** A pg pool, which the caller closes. Set `watch: "poll"` if the pool shares sessions. */
  | { readonly pool: PgPool; readonly watch?: "push" | "poll" }
  /** A directory for PGlite, or `""` for an in-memory database. */
  | { readonly directory: string }
  /** A PGlite instance, which the caller closes. */
  | { readonly db: PgliteInstance };

/** One open database: its stores share connections and the subscription. */
export interface PostgresDatabase {
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
  readonly generator: GeneratorState;
  readonly history: GrantHistory;
  readonly control: Control;
  diagnose(): Promise<readonly Diagnosis[]>;
  waiters(key: Key): Promise<readonly QueuedWaiter[]>;
  /** @internal */
  readonly connections: Connections;
  close(): Promise<void>;
}

/**
 * Connects, brings the schema up to date and opens the stores, for programs that serve or test them. Clients use
 * `connect(postgres(...))`. The caller closes the database.
 * @param env the clock, randomness and logger of the stores
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
export function openPostgres(source: PostgresSource, env: Env): Promise<PostgresDatabase> {
  return atServer(source, env, openDatabase(source, env), (late) => late.close());
}

/** Reports a server of another kind, if the source names one. */
function atServer<Opened>(
  source: PostgresSource,
  env: Env,
  opening: Promise<Opened>,
  close: (late: Opened) => Promise<unknown>,
): Promise<Opened> {
  const address = "url" in source ? addressOf(String(source.url)) : null;
  if (!address) return opening;
  return openServer({ addresses: [address], protocol: "PostgreSQL" }, env, opening, close);
}

async function openDatabase(source: PostgresSource, env: Env): Promise<PostgresDatabase> {
  const backend = await openBackend(source, env);
  try {
    await checkIsolation(backend.general);
    await migrate(backend.general);
    const listener = await Listener.open(backend, env);
    // Notifications arrive only in a session that the store does not share.
    if (listener.mode === "push") backend.prepare?.();
    const connections: Connections = { backend, listener, env };
    let closing: Promise<void> | undefined;
    return {
      leases: new PostgresLeaseStore(connections),
      tasks: new PostgresTaskStore(connections),
      generator: new PostgresGeneratorState(connections),
      history: new PostgresGrantHistory(connections),
      control: postgresControl(connections),
      diagnose: () => diagnosePostgres(connections),
      waiters: ({ namespace, resource }) =>
        backend.general.query<{ holder: string; grantId: string }>(WAITERS, [namespace, resource]),
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
export function migratePostgres(source: PostgresSource, env: Env): Promise<readonly string[]> {
  return atServer(source, env, migrateDatabase(source, env), async () => {});
}

async function migrateDatabase(source: PostgresSource, env: Env): Promise<readonly string[]> {
  const backend = await openBackend(source, env);
  try {
    return await migrate(backend.general);
  } finally {
    await backend.close();
  }
}

/**
 * Checks the isolation level. Every statement decides on the newest version of a row that it locks; at
 * a stricter level PostgreSQL rejects that if another transaction was faster (40001). The store does
 * not set the level itself: behind PgBouncer in transaction mode a SET would reach another client's
 * session.
 */
async function checkIsolation(sql: Sql): Promise<void> {
  const [row] = await sql.query<{ level: string }>(
    "SELECT current_setting('default_transaction_isolation') AS level",
  );
  const level = row?.level ?? "";
  // PostgreSQL treats both levels the same.
  if (level === "read committed" || level === "read uncommitted") return;
  throw new StoreMisconfiguredError(
    `default_transaction_isolation is "${level}", and leasehold needs "read committed": ` +
      "ALTER ROLE ... SET default_transaction_isolation = 'read committed' for its user " +
      "(or ALTER DATABASE ... SET ..., or correct the options of the URL or pool)",
  );
}

function openBackend(source: PostgresSource, env: Env): Promise<Backend> {
  if ("directory" in source) return pgliteBackend(source.directory, env);
  if ("db" in source) return Promise.resolve(ownPgliteBackend(source.db, env));
  if ("pool" in source)
    return Promise.resolve(poolBackend(source.pool, source.watch ?? "push", env));
  const url = String(source.url);
  return serverBackend(url, env);
}

/** For `connect`: opens the database when it is called. */
export interface PostgresStores {
  open(env: Env): Promise<PostgresDatabase>;
  migrate(env: Env): Promise<readonly string[]>;
}

function storesOf(source: PostgresSource): PostgresStores {
  return {
    open: (env) => openPostgres(source, env),
    migrate: (env) => migratePostgres(source, env),
  };
}

/**
 * Leases and tasks in a PostgreSQL server: `postgres({ url })`, or `postgres({ pool })` over a pg pool.
 * The store keeps one connection of the pool for notifications and never closes the pool. Set `watch:
 * "poll"` if the pool leads to PgBouncer in transaction mode. By default the store detects that itself
 * on opening, which takes 2 s.
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
  source: { url: string | URL } | { pool: PgPool; watch?: "push" | "poll" },
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
export function pglite(source: { directory: string } | { db: PgliteInstance }): PostgresStores {
  checkObject("options", source);
  if ("db" in source) {
    checkMethods("db", source.db, ["query", "transaction", "listen"], "await PGlite.create()");
  } else if (typeof source.directory !== "string") {
    throw new InvalidOptionError("directory", `must be a string, got ${kindOf(source.directory)}`);
  }
  return storesOf(source);
}
