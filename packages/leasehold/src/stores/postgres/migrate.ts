/**
 * Forward-only migrations. Many instances may start at once. Each step runs in a transaction of its
 * own, which takes an advisory lock of the database and then checks again which steps remain. The
 * transaction owns the lock, not the session, so this works behind PgBouncer too.
 */
import { StoreMisconfiguredError } from "../../core/index.js";
import type { MigrationStep } from "../source.js";
import type { Schema, Session, Sql } from "./connection.js";
import { MIGRATIONS, type Migration } from "./migrations.js";
import { DEFAULT_SCHEMA } from "./schema.js";

const LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('leasehold migrations', 0))";
/** A service may end long statements of its users, and a step may wait for others or rewrite a table. */
const UNLIMITED =
  "SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)";
/** The time limit of a step, which may wait for the steps of other instances. */
const STEP_TIMEOUT_MS = 120_000;
const MIGRATION_TABLE = `CREATE TABLE IF NOT EXISTS leasehold.migration (
  version integer PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL
)`;

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
        await session.query(UNLIMITED);
        await session.query(LOCK);
        const reached = await versionOf(session, schema);
        const next = migrations[reached];
        if (!next) return reached;
        const begin = reached === 0 ? await creationOf(session, schema) : [];
        for (const text of [...begin, ...statementsOf(next, reached)]) await session.query(text);
        steps.push(next.name);
        return reached + 1;
      },
      { timeoutMs: STEP_TIMEOUT_MS },
    );
  }
  checkKnown(version, schema, migrations);
  return steps;
}

/**
 * All steps in their order, applied and remaining, without taking any.
 * @throws StoreMisconfiguredError if a newer release has migrated this database
 */
export async function planOf(sql: Sql, schema: Schema): Promise<readonly MigrationStep[]> {
  const version = await versionOf(sql, schema);
  checkKnown(version, schema, MIGRATIONS);
  const rows =
    version === 0
      ? []
      : await sql.query<{ at: string }>(
          `SELECT to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at
           FROM leasehold.migration ORDER BY version`,
        );
  return stepsOf(
    schema,
    rows.map(({ at }) => at),
  );
}

/** @param appliedAt when each applied step was taken, in their order */
export function stepsOf(schema: Schema, appliedAt: readonly string[]): readonly MigrationStep[] {
  return MIGRATIONS.map((migration, index) => {
    const begin = index === 0 ? [creating(schema), MIGRATION_TABLE] : [];
    const texts = [
      "BEGIN ISOLATION LEVEL READ COMMITTED",
      UNLIMITED,
      LOCK,
      ...begin,
      ...statementsOf(migration, index),
      "COMMIT",
    ];
    const sql = texts.map((text) => `${schema.sql(text)};\n`).join("");
    return { name: migration.name, appliedAt: appliedAt[index] ?? null, sql };
  });
}

function checkKnown(version: number, schema: Schema, migrations: readonly Migration[]): void {
  if (version <= migrations.length) return;
  throw new StoreMisconfiguredError(
    `the schema "${schema.name}" of this database is at version ${version}, set by a newer release; ` +
      `this release knows ${migrations.length} versions: update leasehold`,
  );
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

/** The step and its record. */
function statementsOf({ name, statements }: Migration, index: number): readonly string[] {
  const record = `INSERT INTO leasehold.migration (version, name, applied_at)
VALUES (${index + 1}, '${name}', clock_timestamp())`;
  return [...statements, record];
}

const creating = (schema: Schema) => `CREATE SCHEMA IF NOT EXISTS ${schema.sqlName}`;

async function creationOf(session: Session, schema: Schema): Promise<readonly string[]> {
  // An administrator may have created the schema for a user without the right to create one, which IF NOT EXISTS
  // demands all the same.
  const [found] = await session.query<{ there: boolean }>(
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = $1) AS there",
    [schema.name],
  );
  return found?.there ? [MIGRATION_TABLE] : [creating(schema), MIGRATION_TABLE];
}
