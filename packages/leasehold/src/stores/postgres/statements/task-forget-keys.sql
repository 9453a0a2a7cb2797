-- Deletes concurrency keys that nothing uses.
-- $1 keptMs

WITH old AS MATERIALIZED (
    SELECT k.ctid AS at FROM leasehold.task_key k
    WHERE k.claimed_at < clock_timestamp() - $1::float8 * interval '1 millisecond'
      AND NOT EXISTS (SELECT FROM leasehold.task t WHERE t.namespace = k.namespace AND t.queue = k.queue
          AND t.kind = k.kind AND t.concurrency_key = k.key AND t.state = 'pending')
      AND NOT EXISTS (SELECT FROM leasehold.task t WHERE t.namespace = k.namespace AND t.queue = k.queue
          AND t.kind = k.kind AND t.concurrency_key = k.key AND t.state || '' = 'running')
    LIMIT 10000
    FOR UPDATE OF k SKIP LOCKED
  )
DELETE FROM leasehold.task_key k USING old WHERE k.ctid = old.at
