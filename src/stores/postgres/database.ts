import type { Control, GrantHistory } from "../../control/index.js";
import type { Env } from "../../env/index.js";
import { type LeaseStore, StoreMisconfiguredError } from "../../lease/index.js";
import type { GeneratorState, TaskStore } from "../../tasks/port.js";
import type { Diagnosis } from "../source.js";
import type { Backend } from "./backend.js";
import type { Connections } from "./connections.js";
import { postgresControl } from "./control.js";
import { diagnosePostgres } from "./diagnose.js";
import { PostgresGeneratorState } from "./generator.js";
import { PostgresGrantHistory } from "./history.js";
import { Listener } from "./listen.js";
import { migrate } from "./migrate.js";
import { ownPgliteBackend, pgliteBackend } from "./pglite.js";
import type { PgliteInstance, PgPool, Sql } from "./query.js";
import { poolBackend, serverBackend } from "./server.js";
import { PostgresLeaseStore } from "./store.js";
import { PostgresTaskStore } from "./tasks.js";

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
