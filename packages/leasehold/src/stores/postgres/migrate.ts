/**
 * Forward-only migrations. Many instances may start at once. Each step runs in a transaction of its
 * own, which takes an advisory lock of the database and then checks again which steps remain. The
 * transaction owns the lock, not the session, so this works behind PgBouncer too.
 *
 * Code of an older release goes on as long as the newer steps say so (`compatibleFrom` in migrations.ts):
 *
 *   the database is at    this code
 *   an older version      takes the steps that remain, or says which they are and who may take them
 *   its own version       goes on
 *   a newer version       goes on if all newer steps are compatible with it, and refuses otherwise
 */
import { StoreMisconfiguredError, StoreUnavailableError, sqlErrorOf } from "../../lease/index.js";
import type { MigrationStep } from "../source.js";
import type { Schema, Session, Sql } from "./connection.js";
import { BASELINE, MIGRATIONS, type Migration } from "./migrations.js";
import { isRefused } from "./rights.js";
import { DEFAULT_SCHEMA } from "./schema.js";

const LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('leasehold migrations', 0))";
/** A service may end long statements of its users, and a step may wait for others or rewrite a table. */
const UNLIMITED =
  "SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)";
/**
 * While a statement waits for a table that a transaction uses, all later statements on that table wait behind it, renewals
 * among them. So it gives up soon, and the step is taken again.
 */
const SHORT_WAIT = "SELECT set_config('lock_timeout', '250ms', true)";
const LOCK_NOT_AVAILABLE = "55P03";
/** Between two tries of a step: what waited behind it goes on meanwhile. */
const PAUSE = "SELECT pg_sleep(0.75)::text";
const MOST_TRIES = 120;
/** The time limit of a step, which may wait for the steps of other instances. */
const STEP_TIMEOUT_MS = 120_000;
const MIGRATION_TABLE = `CREATE TABLE IF NOT EXISTS leasehold.migration (
  version integer PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL,
  compatible_from integer
)`;
/** Databases from before the first release lack the column. */
const WITH_COMPATIBILITY =
  "ALTER TABLE leasehold.migration ADD COLUMN IF NOT EXISTS compatible_from integer";

/**
 * Brings the schema up to date, and returns the names of the applied steps. Needs rights to
 * change the schema only if a step remains.
 * @throws StoreMisconfiguredError if this code does not suit the schema, or if its user may not take a step that remains
 */
export async function migrate(
  sql: Sql,
  schema: Schema = DEFAULT_SCHEMA,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<readonly string[]> {
  const steps: string[] = [];
  const take = () =>
    sql.transaction(
      async (session) => {
        await session.query(UNLIMITED);
        await session.query(LOCK);
        const reached = await versionOf(session, schema);
        const next = nextOf(migrations, reached);
        if (!next) return reached;
        await session.query(SHORT_WAIT);
        const begin = reached === 0 ? await creationOf(session, schema) : [];
        for (const text of [...begin, ...statementsOf(next)]) await session.query(text);
        steps.push(next.name);
        return next.version;
      },
      { timeoutMs: STEP_TIMEOUT_MS },
    );
  let version = await versionOf(sql, schema);
  await checkKnown(sql, version, schema, migrations);
  for (let tries = 1; nextOf(migrations, version); ) {
    try {
      version = await take();
      tries = 1;
    } catch (error) {
      if (isRefused(error) && version > 0) throw await explained(error, sql, schema, migrations);
      if (sqlErrorOf(error)?.code !== LOCK_NOT_AVAILABLE) throw error;
      if (tries === MOST_TRIES) throw inTheWay(nextOf(migrations, version)?.name, error);
      tries += 1;
      await sql.transaction(async (session) => {
        await session.query(UNLIMITED);
        await session.query(PAUSE);
      });
    }
  }
  // A newer release may have gone on meanwhile.
  await checkKnown(sql, version, schema, migrations);
  return steps;
}

/**
 * All steps in their order, applied and remaining, without taking any.
 * @throws StoreMisconfiguredError if this code does not suit the schema
 */
export async function planOf(sql: Sql, schema: Schema): Promise<readonly MigrationStep[]> {
  const version = await versionOf(sql, schema);
  const newer = await checkKnown(sql, version, schema, MIGRATIONS);
  const rows =
    version === 0
      ? []
      : await sql.query<{ at: string }>(
          `SELECT to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at
           FROM leasehold.migration WHERE version >= $1 ORDER BY version`,
          [BASELINE],
        );
  const times = rows.map(({ at }) => at);
  const later = newer.map(({ name }, index) => {
    return { name, appliedAt: times[MIGRATIONS.length + index] ?? null, sql: "" };
  });
  return [...stepsOf(schema, times), ...later];
}

/** @param appliedAt when each applied step was taken, in their order */
export function stepsOf(schema: Schema, appliedAt: readonly string[]): readonly MigrationStep[] {
  return MIGRATIONS.map((migration, index) => {
    const begin = index === 0 ? [creating(schema), MIGRATION_TABLE] : [];
    const texts = [
      "BEGIN ISOLATION LEVEL READ COMMITTED",
      UNLIMITED,
      LOCK,
      SHORT_WAIT,
      ...begin,
      ...statementsOf(migration),
      "COMMIT",
    ];
    const sql = texts.map((text) => `${schema.sql(text)};\n`).join("");
    return { name: migration.name, appliedAt: appliedAt[index] ?? null, sql };
  });
}

function inTheWay(step: string | undefined, cause: unknown): StoreUnavailableError {
  return new StoreUnavailableError(
    `the step "${step}" of the schema needs a lock on a table that a transaction uses: end that transaction (see ` +
      "pg_stat_activity), and run `leasehold migrate`",
    { outcome: "none", cause },
  );
}

/** The next step from a version of the schema; undefined if none remains. */
function nextOf(migrations: readonly Migration[], version: number): Migration | undefined {
  return migrations.find((migration) => migration.version > version);
}

interface NewerStep {
  readonly version: number;
  readonly name: string;
  /** Null in databases from before the first release. */
  readonly compatibleFrom: number | null;
}

/** @returns the steps of newer releases, with which this code works */
async function checkKnown(
  sql: Sql,
  version: number,
  schema: Schema,
  migrations: readonly Migration[],
): Promise<readonly NewerStep[]> {
  const own = migrations.at(-1)?.version ?? 0;
  if (version > 0 && version < BASELINE) {
    throw new StoreMisconfiguredError(
      `the schema "${schema.name}" of this database is at version ${version}, from before the first release, and this ` +
        `release migrates from version ${BASELINE} on: if nothing in it is needed any more, run ` +
        `DROP SCHEMA ${schema.sqlName} CASCADE, and then \`leasehold migrate\``,
    );
  }
  if (version <= own) return [];
  const newer = await sql.query<NewerStep & Record<string, number | string | null>>(
    `SELECT version, name, compatible_from AS "compatibleFrom" FROM leasehold.migration
     WHERE version > $1 ORDER BY version`,
    [own],
  );
  const refusing = newer.find((step) => (step.compatibleFrom ?? step.version) > own);
  if (!refusing) return newer;
  throw new StoreMisconfiguredError(
    `the schema "${schema.name}" of this database is at version ${version}, set by a newer release: since its step ` +
      `"${refusing.name}" it needs code of version ${refusing.compatibleFrom ?? refusing.version} or newer, and this ` +
      `release has ${own}: update leasehold`,
  );
}

/** Names the steps that its user may not take, and the role that may. */
async function explained(
  error: StoreMisconfiguredError,
  sql: Sql,
  schema: Schema,
  migrations: readonly Migration[],
): Promise<StoreMisconfiguredError> {
  const version = await versionOf(sql, schema);
  const missing = migrations.filter((migration) => migration.version > version);
  const [found] = await sql.query<{ owner: string; role: string }>(
    `SELECT pg_catalog.pg_get_userbyid(n.nspowner)::text AS owner, current_user::text AS role
     FROM pg_catalog.pg_namespace n WHERE n.nspname = $1`,
    [schema.name],
  );
  if (!found || missing.length === 0) return error;
  const names = missing.map(({ name }) => `"${name}"`).join(", ");
  return new StoreMisconfiguredError(
    `the schema "${schema.name}" of this database lacks ${missing.length === 1 ? "the step" : "the steps"} ${names} of ` +
      `this release, which the role ${found.role} may not take: run \`leasehold migrate\` as ${found.owner}, the owner ` +
      "of the schema, before this release starts",
    error.cause,
  );
}

/** Returns the version of the schema; 0 if there is none. */
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
function statementsOf({ version, name, compatibleFrom, statements }: Migration): readonly string[] {
  const record = `INSERT INTO leasehold.migration (version, name, applied_at, compatible_from)
VALUES (${version}, '${name}', clock_timestamp(), ${compatibleFrom})`;
  return version === BASELINE
    ? [...statements, record]
    : [...statements, WITH_COMPATIBILITY, record];
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
