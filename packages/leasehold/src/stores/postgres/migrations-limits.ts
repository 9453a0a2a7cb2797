/** The step of the schema for limits and rates: see migrations.ts and task-limit-statements.ts. */
export const LIMIT_STEPS = [
  {
    name: "limits of tasks",
    statements: [
      // Of tasks that were claimed under a limit: their end may let another one run.
      `ALTER TABLE leasehold.task ADD COLUMN limited boolean NOT NULL DEFAULT false,
         ADD COLUMN concurrency_rate integer, ADD COLUMN concurrency_rate_ms bigint`,
      `ALTER TABLE leasehold.schedule
         ADD COLUMN concurrency_rate integer, ADD COLUMN concurrency_rate_ms bigint`,
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
           EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON leasehold.task_limit, leasehold.key_rate TO '
             || role;
         END LOOP;
       END $$`,
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
    ],
  },
];
