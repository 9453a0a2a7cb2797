/** Leases and tasks in PostgreSQL: a server by URL, a pool of yours, or PGlite in this process. */
import type { Control, GrantHistory } from "../../control/index.js";
import { type Key, type LeaseStore, StoreMisconfiguredError } from "../../core/index.js";
import type { Env } from "../../env/index.js";
import type { GeneratorState, TaskStore } from "../../tasks/port.js";
import type { Diagnosis, QueuedWaiter } from "../source.js";
import type { Backend, Sql } from "./connection.js";
import type { PgliteInstance, PgPool } from "./connection-drivers.js";
import { ownPgliteBackend, pgliteBackend } from "./connection-pglite.js";
import { poolBackend, serverBackend } from "./connection-server.js";
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

/** Where the database is. */
export type PostgresSource =
  /** `postgres://user:password@host:port/database`, with pg's parameters; `watch=poll` too. */
  | { readonly url: string | URL }
  /** A pg pool of yours, which stays yours to close. `watch: "poll"` if sessions are pooled. */
  | { readonly pool: PgPool; readonly watch?: "push" | "poll" }
  /** A directory for PGlite, or `""` for a database in memory. */
  | { readonly directory: string }
  /** A PGlite of yours, which stays yours to close. */
  | { readonly db: PgliteInstance };

/** One database opened once: its stores share connections and the subscription. */
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
 * Connects and brings the schema up to date.
 * @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED
 */
export async function openPostgres(source: PostgresSource, env: Env): Promise<PostgresDatabase> {
  const backend = await openBackend(source, env);
  try {
    await checkIsolation(backend.general);
    await migrate(backend.general);
    const listener = await Listener.open(backend, env);
    // Notifications reach only a session that is ours alone.
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
 * Brings the schema of a database up to date and closes it; the names of the steps
 * that took.
 * @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED
 */
export async function migratePostgres(
  source: PostgresSource,
  env: Env,
): Promise<readonly string[]> {
  const backend = await openBackend(source, env);
  try {
    return await migrate(backend.general);
  } finally {
    await backend.close();
  }
}

/**
 * Every statement of the stores decides on the newest version of a row that it locks. At a stricter
 * level PostgreSQL refuses that wherever others were faster (40001). Refused rather than set by us:
 * behind PgBouncer in transaction mode a SET would reach somebody else's session.
 */
async function checkIsolation(sql: Sql): Promise<void> {
  const [row] = await sql.query<{ level: string }>(
    "SELECT current_setting('default_transaction_isolation') AS level",
  );
  const level = row?.level ?? "";
  // To PostgreSQL the two are the same.
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

/** For `connect` and `connectTasks`: opens the database when they ask for it. */
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
 * A PostgreSQL server: `postgres({ url })`, or `postgres({ pool })` with a pool of yours, of which
 * one connection is kept for notifications and which is never closed by us. Set `watch: "poll"` if
 * the pool leads to PgBouncer in transaction mode; otherwise that is found out, which takes 2 s.
 */
export function postgres(
  source: { url: string | URL } | { pool: PgPool; watch?: "push" | "poll" },
): PostgresStores {
  return storesOf(source);
}

/**
 * PostgreSQL in this process. `pglite({ directory })`: a database of our own, made when missing and
 * locked against other processes; `""`: in memory. `pglite({ db })`: the PGlite that your own tables
 * are in, which is never closed by us; several clients may share it. Use its `transaction()`: what
 * we ask between a BEGIN and a COMMIT that you send as statements would be part of it. PGlite has timers
 * that hold a process open, for about 10 s and after a crash for ever: ours are tamed, yours you close.
 */
export function pglite(source: { directory: string } | { db: PgliteInstance }): PostgresStores {
  return storesOf(source);
}
