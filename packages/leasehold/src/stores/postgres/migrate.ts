/**
 * Forward-only migrations. Many instances may start at once. Each step runs in a transaction of its
 * own, which takes an advisory lock of the database and then checks again which steps remain. The
 * transaction owns the lock, not the session, so this works behind PgBouncer too.
 */
import { StoreMisconfiguredError } from "../../core/index.js";
import type { Schema, Session, Sql } from "./connection.js";
import { MIGRATIONS, type Migration } from "./migrations.js";
import { DEFAULT_SCHEMA } from "./schema.js";

const LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('leasehold migrations', 0))";
/** The time limit of a step, which may wait for the steps of other instances. */
const STEP_TIMEOUT_MS = 120_000;

/**
 * Brings the schema up to date, and returns the names of the applied steps. Needs rights to
 * change the schema only if a step remains.
 * @throws StoreMisconfiguredError if a newer release has migrated this database
 */
export async function migrate(
  sql: Sql,
  schema: Schema = DEFAULT_SCHEMA,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<readonly string[]> {
  const steps: string[] = [];
  let version = await versionOf(sql, schema);
  while (version < migrations.length) {
    version = await sql.transaction(
      async (session) => {
        await session.query(LOCK);
        const reached = await versionOf(session, schema);
        const next = migrations[reached];
        if (!next) return reached;
        if (reached === 0) await createSchema(session, schema);
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
      `the schema "${schema.name}" of this database is at version ${version}, set by a newer release; ` +
        `this release knows ${migrations.length} versions: update leasehold`,
    );
  }
  return steps;
}

/** Returns the number of applied steps. */
async function versionOf(session: Session, schema: Schema): Promise<number> {
  // to_regclass may return what this session knew before it waited for the lock.
  const [table] = await session.query<{ there: boolean }>(
    `SELECT EXISTS (
       SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
       WHERE n.nspname = $1 AND c.relname = 'migration'
     ) AS there`,
    [schema.name],
  );
  if (!table?.there) return 0;
  const [row] = await session.query<{ version: number }>(
    "SELECT coalesce(max(version), 0)::int AS version FROM leasehold.migration",
  );
  return row?.version ?? 0;
}

async function createSchema(session: Session, schema: Schema): Promise<void> {
  // An administrator may have created the schema for a user without the right to create one, which IF NOT EXISTS
  // demands all the same.
  const [found] = await session.query<{ there: boolean }>(
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = $1) AS there",
    [schema.name],
  );
  if (!found?.there) await session.query(`CREATE SCHEMA IF NOT EXISTS ${schema.sqlName}`);
  await session.query(`CREATE TABLE IF NOT EXISTS leasehold.migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL
  )`);
}
