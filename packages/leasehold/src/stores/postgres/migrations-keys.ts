/** The step of the schema for tasks with a concurrency key: see migrations.ts and task-key-statements.ts. */
export const KEY_STEPS = [
  {
    name: "concurrency keys",
    statements: [
      `DROP INDEX leasehold.task_pending_keyed, leasehold.task_running_keyed`,
      `ALTER TABLE leasehold.task ADD COLUMN concurrency_any boolean NOT NULL DEFAULT false`,
      // A key belongs to a queue and a kind. The first index is in the order of keys, the second in claim
      // order. An expression, so that no other index has that order: for a key that has few tasks or none,
      // the planner would take the index of all numbers, and read the backlog of a busy key.
      `CREATE INDEX task_keyed_numbered
       ON leasehold.task (namespace, queue, kind, concurrency_key, (seq + 0))
       WHERE state = 'pending' AND concurrency_key IS NOT NULL`,
      `CREATE INDEX task_keyed_claimed
       ON leasehold.task (namespace, queue, kind, concurrency_key, priority, scheduled_at, seq)
       WHERE state = 'pending' AND concurrency_key IS NOT NULL`,
      // Its last condition means state = 'running'. Written so, it would also admit the index of all running
      // tasks: while few run, the planner would take that one, and read all of them for each key.
      `CREATE INDEX task_keyed_running ON leasehold.task (namespace, queue, kind, concurrency_key)
       WHERE concurrency_key IS NOT NULL AND state || '' = 'running'`,
      // Claims lock the row of a key before they look at its tasks.
      `CREATE TABLE leasehold.task_key (
         namespace text COLLATE "C" NOT NULL,
         queue text COLLATE "C" NOT NULL,
         kind text COLLATE "C" NOT NULL,
         key text COLLATE "C" NOT NULL,
         claimed_at timestamptz NOT NULL,
         PRIMARY KEY (namespace, queue, kind, key)
       ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01)`,
      // Keys of which a task may be claimable from then on. Rows are inserted by whatever transaction
      // changes that, and deleted by the claim that looks: no two of them wait for each other, hence
      // several rows a key. The priority and the time are those of the task, to look in claim order.
      `CREATE TABLE leasehold.due_key (
         namespace text COLLATE "C" NOT NULL,
         queue text COLLATE "C" NOT NULL,
         kind text COLLATE "C" NOT NULL,
         key text COLLATE "C" NOT NULL,
         priority smallint NOT NULL,
         due_at timestamptz NOT NULL
       ) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01)`,
      // Without a primary key, rows of a published table could not be deleted.
      `ALTER TABLE leasehold.due_key REPLICA IDENTITY FULL`,
      `CREATE INDEX due_key_claimed ON leasehold.due_key (namespace, queue, priority, due_at)`,
      `CREATE INDEX due_key_next ON leasehold.due_key (namespace, queue, due_at)`,
      `CREATE INDEX due_key_key ON leasehold.due_key (namespace, queue, kind, key, due_at)`,
      // Any role that may insert a task may do so with a key.
      `GRANT INSERT ON leasehold.due_key TO PUBLIC`,
      // Roles that run tasks go on running them.
      `DO $$
       DECLARE
         role text;
       BEGIN
         FOR role IN
           SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
           FROM pg_catalog.pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
           WHERE c.oid = 'leasehold.task'::regclass AND a.privilege_type = 'UPDATE'
         LOOP
           EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON leasehold.task_key, leasehold.due_key TO '
             || role;
         END LOOP;
       END $$`,
      `CREATE FUNCTION leasehold.key_changed() RETURNS trigger LANGUAGE plpgsql AS $$
       DECLARE
         task record;
         head record;
       BEGIN
         IF TG_OP = 'DELETE' THEN task := OLD; ELSE task := NEW; END IF;
         IF TG_OP <> 'DELETE' AND task.state = 'pending' THEN
           -- One row for the tasks of a key that one transaction adds: they are seen together. Few are looked
           -- at, because others may be due at the same time.
           INSERT INTO leasehold.due_key (namespace, queue, kind, key, priority, due_at)
           SELECT task.namespace, task.queue, task.kind, task.concurrency_key, task.priority,
             task.scheduled_at
           WHERE NOT EXISTS (
             SELECT FROM (
               SELECT d.xmin AS added_by, d.priority FROM leasehold.due_key d
               WHERE d.namespace = task.namespace AND d.queue = task.queue AND d.kind = task.kind
                 AND d.key = task.concurrency_key AND d.due_at = task.scheduled_at
               LIMIT 10
             ) d WHERE d.added_by = pg_current_xact_id()::xid AND d.priority <= task.priority
           );
           IF TG_OP = 'INSERT' OR task.scheduled_at <= clock_timestamp() THEN
             RETURN NULL;
           END IF;
         END IF;
         -- It no longer keeps back those behind it. A row even if there is none: a transaction that adds
         -- one may not have ended.
         SELECT t.priority, t.scheduled_at INTO head FROM leasehold.task t
         WHERE t.namespace = task.namespace AND t.queue = task.queue AND t.kind = task.kind
           AND t.concurrency_key = task.concurrency_key AND t.state = 'pending'
         ORDER BY (t.seq + 0) LIMIT 1;
         INSERT INTO leasehold.due_key (namespace, queue, kind, key, priority, due_at)
         VALUES (task.namespace, task.queue, task.kind, task.concurrency_key,
           coalesce(head.priority, task.priority), least(head.scheduled_at, clock_timestamp()));
         IF head.priority IS NOT NULL THEN
           PERFORM pg_notify('leasehold', json_build_array('task', task.namespace, task.queue)::text);
         END IF;
         RETURN NULL;
       END $$`,
      // Conditions that tasks without a key fail at next to no cost. A heartbeat sets no state.
      `CREATE TRIGGER task_keyed_added AFTER INSERT ON leasehold.task
       FOR EACH ROW WHEN (NEW.concurrency_key IS NOT NULL)
       EXECUTE FUNCTION leasehold.key_changed()`,
      `CREATE TRIGGER task_keyed_changed AFTER UPDATE OF state ON leasehold.task
       FOR EACH ROW WHEN (NEW.concurrency_key IS NOT NULL AND NEW.state <> 'running')
       EXECUTE FUNCTION leasehold.key_changed()`,
      `CREATE TRIGGER task_keyed_deleted AFTER DELETE ON leasehold.task
       FOR EACH ROW WHEN (OLD.concurrency_key IS NOT NULL AND OLD.state = 'pending')
       EXECUTE FUNCTION leasehold.key_changed()`,
    ],
  },
];
