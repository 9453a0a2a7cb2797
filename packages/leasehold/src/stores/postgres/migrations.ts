/**
 * The schema: a baseline, and the steps after it. Each step works on servers and PGlite, from PostgreSQL 13 on.
 *
 * Releases run beside each other while a fleet is upgraded (docs/upgrading.md). So a step must suit the code of the
 * release before it, which goes on while the step is taken and afterwards:
 *
 *   expand     add a table, or a column that may be null or has a constant as its default. The code before does not
 *              know them: `compatibleFrom` stays that of the step before.
 *   backfill   fill the column from the code of this release, some thousand rows at a time in transactions of their
 *              own. A step holds its locks until it ends, so it never writes all rows of a table.
 *   contract   a release later, drop what no code uses any more. `compatibleFrom` is then the first version whose code
 *              does without it. If that release had no step of its own, it adds one without statements.
 *
 * - A released step is never edited: changes are new steps at the end. catalog.test.ts shows what they make.
 * - Statements wait for a lock for a short time only, because all leases would wait behind them. Then the step is taken
 *   again (migrate.ts).
 * - An index blocks the writers of its table until it is built. One on a table that may be large must be built
 *   CONCURRENTLY, which no transaction can do: migrate.ts has no such steps yet, because none was needed.
 * - The code before must not meet a name twice: a new column has a name that no statement gives to anything else.
 * - A new table is granted to the roles that may use the tables beside it, and has its entry in rights.ts.
 * - `npm run verify -- upgrade` runs the last release beside the new one.
 */
import { CONTROL_TABLES, FENCE_TABLES } from "./baseline-control.js";
import { LEASE_TABLES } from "./baseline-leases.js";
import { TASK_LIMIT_TABLES } from "./baseline-task-limits.js";
import { TASK_TABLES } from "./baseline-tasks.js";

export interface Migration {
  /** Of the schema after this step. Each step is one version. */
  readonly version: number;
  readonly name: string;
  /** The first version whose code works on the schema after this step. */
  readonly compatibleFrom: number;
  readonly statements: readonly string[];
}

/** Earlier versions were those of development. Databases at this one are as the baseline makes them. */
export const BASELINE = 17;

export const MIGRATIONS: readonly Migration[] = [
  {
    version: BASELINE,
    name: "baseline",
    compatibleFrom: BASELINE,
    statements: [
      ...LEASE_TABLES,
      ...TASK_TABLES,
      ...TASK_LIMIT_TABLES,
      ...CONTROL_TABLES,
      ...FENCE_TABLES,
    ],
  },
  {
    version: 18,
    name: "uses and scopes of keys",
    // The code before gives roles that it does not know no rights.
    compatibleFrom: BASELINE,
    statements: [
      "ALTER TABLE leasehold.api_key ADD COLUMN last_used_at timestamptz",
      "ALTER TABLE leasehold.api_key ADD COLUMN queues text NOT NULL DEFAULT '[]'",
      `ALTER TABLE leasehold.api_key DROP CONSTRAINT api_key_role_check,
         ADD CONSTRAINT api_key_role_check CHECK (role IN ('scraper', 'viewer', 'holder', 'limitedOperator', 'operator', 'admin'))`,
    ],
  },
  {
    version: 19,
    name: "limits of the time of tasks",
    // The code before renews tasks for as long as their holders want, and begins them at any time.
    compatibleFrom: BASELINE,
    statements: [
      `ALTER TABLE leasehold.task
         ADD COLUMN max_run_ms bigint,
         -- Of the last grant: when its lease ends at the latest.
         ADD COLUMN run_until timestamptz,
         ADD COLUMN start_by timestamptz,
         ADD COLUMN postponed integer NOT NULL DEFAULT 0,
         -- Null: twice as long each time, half of it random.
         ADD COLUMN backoff_factor double precision,
         ADD COLUMN backoff_jitter double precision`,
      // Not validated: no row has the new state, and a check of all rows would hold up every worker.
      `ALTER TABLE leasehold.task DROP CONSTRAINT task_state_check,
         ADD CONSTRAINT task_state_check
           CHECK (state IN ('pending', 'running', 'done', 'dead', 'cancelled', 'expired')) NOT VALID`,
      // Built from one pass over the table each. No row is in them yet.
      "CREATE INDEX task_expired ON leasehold.task (namespace, seq) WHERE state = 'expired'",
      `CREATE INDEX task_start ON leasehold.task (start_by) WHERE state = 'pending' AND start_by IS NOT NULL`,
      `ALTER TABLE leasehold.schedule
         ADD COLUMN max_run_ms bigint,
         ADD COLUMN start_by_ms bigint,
         ADD COLUMN backoff_factor double precision,
         ADD COLUMN backoff_jitter double precision`,
    ],
  },
];
