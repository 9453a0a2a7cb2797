/** The tables, indexes and triggers of concurrency keys, limits and rates: see migrations.ts and task-key-statements.ts. */
const KEY_TABLES = [
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
  // several rows a key. The priority and the time are those of the task, to look in claim order. The version is that
  // of the task that keeps back the key: a claim of an earlier version need not look.
  `CREATE TABLE leasehold.due_key (
     namespace text COLLATE "C" NOT NULL,
     queue text COLLATE "C" NOT NULL,
     kind text COLLATE "C" NOT NULL,
     key text COLLATE "C" NOT NULL,
     priority smallint NOT NULL,
     due_at timestamptz NOT NULL,
     version smallint NOT NULL DEFAULT 1
   ) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01)`,
  // Without a primary key, rows of a published table could not be deleted.
  `ALTER TABLE leasehold.due_key REPLICA IDENTITY FULL`,
  `CREATE INDEX due_key_claimed ON leasehold.due_key (namespace, queue, priority, due_at)`,
  `CREATE INDEX due_key_next ON leasehold.due_key (namespace, queue, due_at)`,
  `CREATE INDEX due_key_key ON leasehold.due_key (namespace, queue, kind, key, due_at)`,
  // Any role that may insert a task may do so with a key.
  `GRANT INSERT ON leasehold.due_key TO PUBLIC`,
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
];

const LIMIT_TABLES = [
  // The window of a rate is the last that has begun. Claims lock a row, and change it if they take tasks.
  `CREATE TABLE leasehold.task_limit (
     namespace text COLLATE "C" NOT NULL,
     scope text COLLATE "C" NOT NULL CHECK (scope IN ('kind', 'queue')),
     name text COLLATE "C" NOT NULL,
     running_most integer,
     rate_limit integer,
     rate_per_ms bigint,
     declared_at timestamptz NOT NULL,
     declared_by text NOT NULL,
     window_start timestamptz,
     window_used integer NOT NULL DEFAULT 0,
     PRIMARY KEY (namespace, scope, name)
   ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01)`,
  // The last window of the rate of each concurrency key. Only claims that have locked its row in task_key write it.
  `CREATE TABLE leasehold.key_rate (
     namespace text COLLATE "C" NOT NULL,
     queue text COLLATE "C" NOT NULL,
     kind text COLLATE "C" NOT NULL,
     key text COLLATE "C" NOT NULL,
     window_start timestamptz NOT NULL,
     window_used integer NOT NULL,
     ends_at timestamptz NOT NULL,
     PRIMARY KEY (namespace, queue, kind, key)
   ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01)`,
  // Each kind in claim order, so that the backlog of one that must wait is in no other's way. Its last
  // condition always holds, and only the statement for limits has it: the planner, which would read a
  // whole queue by this index before the table is analyzed, can take it for no other.
  `CREATE INDEX task_kinds
   ON leasehold.task (namespace, queue, kind, priority, scheduled_at, seq)
   WHERE state = 'pending' AND concurrency_key IS NULL AND kind || '' <> ''`,
  // With the condition of task_keyed_running, and one each that always holds: so the planner takes none for another.
  `CREATE INDEX task_limited_kind ON leasehold.task (namespace, kind)
   WHERE limited AND state || '' = 'running' AND kind || '' <> ''`,
  `CREATE INDEX task_limited_queue ON leasehold.task (namespace, queue)
   WHERE limited AND state || '' = 'running' AND queue || '' <> ''`,
  // An empty queue name: workers of any queue may wait for a place of the kind.
  `CREATE FUNCTION leasehold.limited_ended() RETURNS trigger LANGUAGE plpgsql AS $$
   BEGIN
     PERFORM pg_notify('leasehold', json_build_array('task', OLD.namespace, CASE WHEN EXISTS (
         SELECT FROM leasehold.task_limit l
         WHERE l.namespace = OLD.namespace AND l.scope = 'kind' AND l.name = OLD.kind
       ) THEN '' ELSE OLD.queue END)::text);
     RETURN NULL;
   END $$`,
  // A condition that other tasks fail at next to no cost.
  `CREATE TRIGGER task_limited_ended AFTER UPDATE OF state ON leasehold.task
   FOR EACH ROW WHEN (OLD.limited AND OLD.state = 'running' AND NEW.state <> 'running')
   EXECUTE FUNCTION leasehold.limited_ended()`,
];

export const TASK_LIMIT_TABLES = [...KEY_TABLES, ...LIMIT_TABLES];
