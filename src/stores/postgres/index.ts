/** Leases and tasks in PostgreSQL: a server by URL, a pool of yours, or PGlite in this process. */
import type { Env } from "../../env/index.js";
import { openPostgres, type PostgresDatabase } from "./database.js";
import type { PgliteInstance, PgPool } from "./query.js";

export {
  migratePostgres,
  openPostgres,
  type PostgresDatabase,
  type PostgresSource,
} from "./database.js";
export type { PgClient, PgliteInstance, PgliteSession, PgPool, PgPoolClient } from "./query.js";

/** For `connect` and `connectTasks`: opens the database when they ask for it. */
export interface PostgresStores {
  open(env: Env): Promise<PostgresDatabase>;
}

/**
 * A PostgreSQL server: `postgres({ url })`, or `postgres({ pool })` with a pool of yours, of which
 * one connection is kept for notifications and which is never closed by us. Set `watch: "poll"` if
 * the pool leads to PgBouncer in transaction mode; otherwise that is found out, which takes 2 s.
 */
export function postgres(
  source: { url: string | URL } | { pool: PgPool; watch?: "push" | "poll" },
): PostgresStores {
  return { open: (env) => openPostgres(source, env) };
}

/**
 * PostgreSQL in this process. `pglite({ directory })`: a database of our own, made when missing and
 * locked against other processes; `""`: in memory. `pglite({ db })`: the PGlite that your own tables
 * are in, which is never closed by us; several clients may share it. Use its `transaction()`: what
 * we ask between a BEGIN and a COMMIT that you send as statements would be part of it. PGlite has timers
 * that hold a process open, for about 10 s and after a crash for ever: ours are tamed, yours you close.
 */
export function pglite(source: { directory: string } | { db: PgliteInstance }): PostgresStores {
  return { open: (env) => openPostgres(source, env) };
}
