/** The tables of tasks, of what describes them and of what enqueues them: see migrations.ts. */
export const TASK_TABLES = [
  // Any role that reaches the schema may number tasks: it may still insert none.
  `CREATE SEQUENCE leasehold.task_seq`,
  `GRANT USAGE ON SEQUENCE leasehold.task_seq TO PUBLIC`,
  // The row carries the last grant, live or ended. JSON is stored as text: jsonb rejects \u0000 and
  // keeps neither the key order nor all numbers. No index on a time that a heartbeat sets, and free
  // space in each page: a heartbeat then touches no index and no new page. Vacuum often, because
  // every task leaves several dead row versions.
  // The times to keep an ended task are null for tasks that are never deleted. A concurrency key is null for tasks
  // that run whatever else runs. `limited` is true of tasks that were claimed under a limit: their end may let
  // another one run.
  `CREATE TABLE leasehold.task (
     namespace text COLLATE "C" NOT NULL,
     id text COLLATE "C" NOT NULL,
     state text NOT NULL
       CHECK (state IN ('pending', 'running', 'done', 'dead', 'cancelled')),
     kind text COLLATE "C" NOT NULL,
     queue text COLLATE "C" NOT NULL,
     priority smallint NOT NULL,
     scheduled_at timestamptz NOT NULL,
     dedupe_key text COLLATE "C",
     data text NOT NULL,
     output text,
     error text,
     failures integer NOT NULL DEFAULT 0,
     crashes integer NOT NULL DEFAULT 0,
     max_attempts integer NOT NULL,
     crash_limit integer NOT NULL,
     backoff_ms bigint NOT NULL,
     max_backoff_ms bigint NOT NULL,
     created_at timestamptz NOT NULL,
     finished_at timestamptz,
     attempt integer NOT NULL DEFAULT 0,
     token bigint NOT NULL DEFAULT 0,
     lease_id text,
     holder text,
     previous_holder text,
     ttl_ms integer,
     started_at timestamptz,
     heartbeat_at timestamptz,
     expires_at timestamptz,
     result text CHECK (result IN ('done', 'failed', 'expired', 'returned', 'cancelled')),
     progress text,
     seq bigint NOT NULL DEFAULT nextval('leasehold.task_seq'),
     checkpoint text,
     keep_done_ms bigint,
     keep_dead_ms bigint,
     delete_at timestamptz,
     concurrency_key text COLLATE "C",
     concurrency_limit integer,
     concurrency_any boolean NOT NULL DEFAULT false,
     version smallint NOT NULL DEFAULT 1,
     limited boolean NOT NULL DEFAULT false,
     concurrency_rate integer,
     concurrency_rate_ms bigint,
     PRIMARY KEY (namespace, id)
   ) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01,
     autovacuum_analyze_scale_factor = 0.01)`,
  `ALTER SEQUENCE leasehold.task_seq OWNED BY leasehold.task.seq`,
  `CREATE INDEX task_newest ON leasehold.task (namespace, seq)`,
  // In claim order. Tasks with a concurrency key have indexes of their own (baseline-task-limits.ts), so that those
  // that must wait for others of their key are in no other task's way.
  `CREATE INDEX task_pending ON leasehold.task (namespace, queue, priority, scheduled_at, seq)
   WHERE state = 'pending' AND concurrency_key IS NULL`,
  // Few rows, whatever the backlog: reaping reads all of them. By id, as holders look their tasks up: by number the
  // planner would take it for them too, while it believes that few tasks run, and read all of them for each.
  `CREATE INDEX task_running ON leasehold.task (namespace, id) WHERE state = 'running'`,
  // A partial index for rare rows.
  `CREATE INDEX task_stopped ON leasehold.task (namespace, seq)
   WHERE state IN ('dead', 'cancelled')`,
  `CREATE INDEX task_deletion ON leasehold.task (delete_at) WHERE delete_at IS NOT NULL`,
  `CREATE UNIQUE INDEX task_dedupe ON leasehold.task (namespace, kind, dedupe_key)
   WHERE state IN ('pending', 'running') AND dedupe_key IS NOT NULL`,
  // Ended grants. Rows are only inserted. The number of the task orders lists of attempts, and does not return with
  // a deleted task's id. A TTL and a heartbeat may be null in the oldest rows.
  `CREATE TABLE leasehold.attempt (
     namespace text COLLATE "C" NOT NULL,
     task_id text COLLATE "C" NOT NULL,
     attempt integer NOT NULL,
     holder text NOT NULL,
     grant_id text NOT NULL,
     token bigint NOT NULL,
     started_at timestamptz NOT NULL,
     ended_at timestamptz NOT NULL,
     result text NOT NULL,
     error text,
     progress text,
     ttl_ms integer,
     heartbeat_at timestamptz,
     task_seq bigint NOT NULL,
     PRIMARY KEY (namespace, task_seq, attempt)
   )`,
  // A partial index for rare rows.
  `CREATE INDEX attempt_unreleased ON leasehold.attempt (namespace, task_seq, attempt)
   WHERE result IN ('expired', 'cancelled')`,
  `CREATE INDEX attempt_renewed ON leasehold.attempt (namespace, task_seq, attempt)
   WHERE heartbeat_at IS NOT NULL`,
  // The tasks that each claim took, kept while the claim may be repeated.
  `CREATE TABLE leasehold.claim (
     namespace text COLLATE "C" NOT NULL,
     claim_id text COLLATE "C" NOT NULL,
     claimed_at timestamptz NOT NULL,
     task_seqs bigint[] NOT NULL,
     PRIMARY KEY (namespace, claim_id)
   )`,
  `CREATE INDEX claim_age ON leasehold.claim (claimed_at)`,
  // Tasks whose result a caller waits for: the end of another task notifies no one. Statements that end tasks look
  // whether there is a row at all, so vacuum often.
  `CREATE TABLE leasehold.result_wait (
     namespace text COLLATE "C" NOT NULL,
     task_id text COLLATE "C" NOT NULL,
     expires_at timestamptz NOT NULL,
     PRIMARY KEY (namespace, task_id)
   ) WITH (autovacuum_vacuum_scale_factor = 0.01)`,
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
     version smallint NOT NULL DEFAULT 1,
     concurrency_rate integer,
     concurrency_rate_ms bigint,
     PRIMARY KEY (namespace, name)
   )`,
  `CREATE INDEX schedule_due ON leasehold.schedule (due_at) WHERE paused_at IS NULL`,
];
