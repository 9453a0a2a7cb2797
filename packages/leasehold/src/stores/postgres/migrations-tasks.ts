/** The steps of the schema that number tasks and notify their results: see migrations.ts. */
export const TASK_STEPS = [
  {
    name: "tasks by number",
    statements: [
      // Copied rather than updated in place: each row is written once more, and no index is kept meanwhile.
      `LOCK TABLE leasehold.task, leasehold.attempt, leasehold.claim`,
      `CREATE UNLOGGED TABLE leasehold.task_before AS
       SELECT t.*, row_number() OVER (ORDER BY t.created_at, t.id) AS seq FROM leasehold.task t`,
      `CREATE UNLOGGED TABLE leasehold.attempt_before AS
       SELECT a.*, t.seq AS task_seq FROM leasehold.attempt a
       JOIN leasehold.task_before t ON t.namespace = a.namespace AND t.id = a.task_id`,
      `TRUNCATE leasehold.task, leasehold.attempt, leasehold.claim`,
      `DROP INDEX leasehold.task_pending, leasehold.task_running, leasehold.task_stopped,
         leasehold.attempt_unreleased, leasehold.attempt_renewed`,
      // Any role that reaches the schema may number tasks: it may still insert none.
      `CREATE SEQUENCE leasehold.task_seq`,
      `GRANT USAGE ON SEQUENCE leasehold.task_seq TO PUBLIC`,
      // The times to keep an ended task are null for tasks that are never deleted, as those before this
      // step. A concurrency key is null for tasks that run whatever else runs.
      `ALTER TABLE leasehold.task ALTER COLUMN id TYPE text COLLATE "C",
         ADD COLUMN seq bigint NOT NULL DEFAULT nextval('leasehold.task_seq'),
         ADD COLUMN checkpoint text,
         ADD COLUMN keep_done_ms bigint, ADD COLUMN keep_dead_ms bigint,
         ADD COLUMN delete_at timestamptz,
         ADD COLUMN concurrency_key text COLLATE "C", ADD COLUMN concurrency_limit integer`,
      `ALTER SEQUENCE leasehold.task_seq OWNED BY leasehold.task.seq`,
      // The number of the task orders lists of attempts, and does not return with a deleted task's id.
      `ALTER TABLE leasehold.attempt DROP CONSTRAINT attempt_pkey,
         ALTER COLUMN task_id TYPE text COLLATE "C", ADD COLUMN task_seq bigint NOT NULL`,
      `ALTER TABLE leasehold.claim DROP COLUMN task_ids, ADD COLUMN task_seqs bigint[] NOT NULL`,
      `INSERT INTO leasehold.task SELECT * FROM leasehold.task_before ORDER BY seq`,
      `SELECT setval('leasehold.task_seq', max(seq)) FROM leasehold.task_before`,
      `INSERT INTO leasehold.attempt SELECT * FROM leasehold.attempt_before ORDER BY task_seq, attempt`,
      `DROP TABLE leasehold.task_before, leasehold.attempt_before`,
      `CREATE INDEX task_newest ON leasehold.task (namespace, seq)`,
      // In claim order. Tasks with a concurrency key have an index of their own, so that those that
      // must wait for others of their key are in no other task's way.
      `CREATE INDEX task_pending ON leasehold.task (namespace, queue, priority, scheduled_at, seq)
       WHERE state = 'pending' AND concurrency_key IS NULL`,
      `CREATE INDEX task_pending_keyed
       ON leasehold.task (namespace, queue, concurrency_key, priority, scheduled_at, seq)
       WHERE state = 'pending' AND concurrency_key IS NOT NULL`,
      // By id, as holders look their tasks up: by number the planner would take it for them too, while it
      // believes that few tasks run, and read all of them for each.
      `CREATE INDEX task_running ON leasehold.task (namespace, id) WHERE state = 'running'`,
      `CREATE INDEX task_running_keyed ON leasehold.task (namespace, concurrency_key)
       WHERE state = 'running' AND concurrency_key IS NOT NULL`,
      `CREATE INDEX task_stopped ON leasehold.task (namespace, seq)
       WHERE state IN ('dead', 'cancelled')`,
      `CREATE INDEX task_deletion ON leasehold.task (delete_at) WHERE delete_at IS NOT NULL`,
      `ALTER TABLE leasehold.attempt ADD PRIMARY KEY (namespace, task_seq, attempt)`,
      `CREATE INDEX attempt_unreleased ON leasehold.attempt (namespace, task_seq, attempt)
       WHERE result IN ('expired', 'cancelled')`,
      `CREATE INDEX attempt_renewed ON leasehold.attempt (namespace, task_seq, attempt)
       WHERE heartbeat_at IS NOT NULL`,
      `ANALYZE leasehold.task, leasehold.attempt`,
    ],
  },
  {
    name: "results",
    statements: [
      // Tasks whose result a caller waits for: the end of another task notifies no one. Statements that end tasks look
      // whether there is a row at all, so vacuum often.
      `CREATE TABLE leasehold.result_wait (
         namespace text COLLATE "C" NOT NULL,
         task_id text COLLATE "C" NOT NULL,
         expires_at timestamptz NOT NULL,
         PRIMARY KEY (namespace, task_id)
       ) WITH (autovacuum_vacuum_scale_factor = 0.01)`,
    ],
  },
];
