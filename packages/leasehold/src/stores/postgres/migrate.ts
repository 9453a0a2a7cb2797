/**
 * Forward-only migrations. Many instances may start at once: each step runs in a transaction of its
 * own that first takes an advisory lock of the database and then looks again at what is left to do.
 * The lock is the transaction's, not the session's, so that this is right behind PgBouncer too.
 */
import { StoreMisconfiguredError } from "../../core/index.js";
import type { Session, Sql } from "./connection.js";
import { MIGRATIONS, type Migration } from "./migrations.js";

/** Our name among the advisory locks of a database: the bytes "leasehol" as a number. */
const LOCK = "SELECT pg_advisory_xact_lock(7810756276994469740)";
/** A step waits for the steps of other instances. */
const STEP_TIMEOUT_MS = 120_000;

/**
 * Brings the schema `leasehold` up to date; the names of the steps that took.
 * Needs rights to change the schema only where there is something to do.
 * @throws StoreMisconfiguredError when a newer release has migrated this database
 */
export async function migrate(
  sql: Sql,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<readonly string[]> {
  const steps: string[] = [];
  let version = await versionOf(sql);
  while (version < migrations.length) {
    version = await sql.transaction(
      async (session) => {
        await session.query(LOCK);
        const reached = await versionOf(session);
        const next = migrations[reached];
        if (!next) return reached;
        if (reached === 0) await createSchema(session);
        for (const statement of next.statements) await session.query(statement);
        await session.query(
          "INSERT INTO leasehold.migration (version, name, applied_at) VALUES ($1::int, $2, clock_timestamp())",
          [reached + 1, next.name],
        );
        steps.push(next.name);
        return reached + 1;
      },
      { timeoutMs: STEP_TIMEOUT_MS },
    );
  }
  if (version > migrations.length) {
    throw new StoreMisconfiguredError(
      `the schema "leasehold" of this database is at version ${version}, which a newer release has made; ` +
        `this one knows ${migrations.length}: update leasehold`,
    );
  }
  return steps;
}

/** How many steps have been done. */
async function versionOf(session: Session): Promise<number> {
  // Not to_regclass: it may answer from what this session knew before it waited for the lock.
  const [table] = await session.query<{ there: boolean }>(
    `SELECT EXISTS (
       SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
       WHERE n.nspname = 'leasehold' AND c.relname = 'migration'
     ) AS there`,
  );
  if (!table?.there) return 0;
  const [row] = await session.query<{ version: number }>(
    "SELECT coalesce(max(version), 0)::int AS version FROM leasehold.migration",
  );
  return row?.version ?? 0;
}

async function createSchema(session: Session): Promise<void> {
  // IF NOT EXISTS: an administrator may have made the schema for a user without that right.
  await session.query("CREATE SCHEMA IF NOT EXISTS leasehold");
  await session.query(`CREATE TABLE IF NOT EXISTS leasehold.migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL
  )`);
}
