-- Cancels each task that has not ended.
-- $1 namespaces
-- $2 ids

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  input AS MATERIALIZED (SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]))
      WITH ORDINALITY AS i (namespace, id, n)),
  held AS MATERIALIZED (
    SELECT i.*, t.* FROM (SELECT * FROM input ORDER BY namespace COLLATE "C", id COLLATE "C") i
      CROSS JOIN clock c CROSS JOIN LATERAL (
        SELECT t.ctid AS at, t.state FROM leasehold.task t
        WHERE t.namespace = i.namespace AND t.id = i.id AND (t.state IN ('pending', 'running'))
        FOR NO KEY UPDATE OF t SKIP LOCKED
      ) t
  ),
  changed AS (
    UPDATE leasehold.task t SET state = 'cancelled', finished_at = c.now, delete_at = c.now + t.keep_dead_ms * interval '1 millisecond',
      result = CASE WHEN h.state = 'running' THEN 'cancelled' ELSE t.result END
    FROM held h CROSS JOIN clock c WHERE t.ctid = h.at
    RETURNING h.n, h.state AS before, t.namespace, t.id, t.seq, t.attempt, t.holder, t.lease_id, t.token, t.ttl_ms,
      t.started_at, t.heartbeat_at, t.progress, t.queue, t.state
  ),
  kept AS (
    INSERT INTO leasehold.attempt
      (namespace, task_id, task_seq, attempt, holder, grant_id, token, ttl_ms, started_at,
       heartbeat_at, ended_at, result, error, progress)
    SELECT x.namespace, x.id, x.seq, x.attempt, x.holder, left(x.lease_id, 16), x.token, x.ttl_ms,
      x.started_at, x.heartbeat_at, c.now, 'cancelled', NULL, x.progress
    FROM (SELECT * FROM changed WHERE before = 'running') x CROSS JOIN clock c
  )
SELECT x.n::int AS n, (
    SELECT count(pg_notify('leasehold', json_build_array('ended', e.namespace, e.id)::text)::text)
    FROM changed e WHERE (SELECT EXISTS (SELECT FROM leasehold.result_wait)) AND true AND (
      SELECT true FROM leasehold.result_wait w WHERE w.namespace = e.namespace AND w.task_id = e.id
    )
  )::int AS ended FROM changed x
