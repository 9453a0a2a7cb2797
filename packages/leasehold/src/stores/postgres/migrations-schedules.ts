/** The step of the schema for schedules: see migrations.ts and schedule-statements.ts. */
export const SCHEDULE_STEPS = [
  {
    name: "schedules",
    statements: [
      // Every change draws a new revision from the sequence of tasks, so that no two versions of a row have one, not
      // even across a deletion. The declaration, then what operators and ticks have made of it.
      `CREATE TABLE leasehold.schedule (
         namespace text COLLATE "C" NOT NULL,
         name text COLLATE "C" NOT NULL,
         cron text,
         time_zone text NOT NULL,
         every_ms bigint,
         catch_up integer NOT NULL,
         overlap text NOT NULL CHECK (overlap IN ('allow', 'skip', 'queue')),
         jitter_ms bigint NOT NULL,
         kind text COLLATE "C" NOT NULL,
         queue text COLLATE "C" NOT NULL,
         priority smallint NOT NULL,
         data text NOT NULL,
         max_attempts integer NOT NULL,
         crash_limit integer NOT NULL,
         backoff_ms bigint NOT NULL,
         max_backoff_ms bigint NOT NULL,
         keep_done_ms bigint,
         keep_dead_ms bigint,
         concurrency_key text COLLATE "C",
         concurrency_limit integer,
         concurrency_any boolean NOT NULL,
         declared_at timestamptz NOT NULL,
         revision bigint NOT NULL,
         paused_at timestamptz,
         paused_by text,
         pause_reason text,
         last_fire_at timestamptz NOT NULL,
         due_at timestamptz NOT NULL,
         waiting text NOT NULL DEFAULT '[]',
         fired bigint NOT NULL DEFAULT 0,
         skipped bigint NOT NULL DEFAULT 0,
         last_task_id text COLLATE "C",
         PRIMARY KEY (namespace, name)
       )`,
      `CREATE INDEX schedule_due ON leasehold.schedule (due_at) WHERE paused_at IS NULL`,
    ],
  },
];
