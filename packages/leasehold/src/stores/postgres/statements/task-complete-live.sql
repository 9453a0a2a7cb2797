-- Completes each task of a batch whose grant is live. Its one row lists their numbers:
-- task-complete decides the others.
-- $1 namespace
-- $2 ids
-- $3 leaseIds
-- $4 tokens
-- $5 outputs

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  held AS MATERIALIZED (
    SELECT i.n, i.output, t.at
    FROM (
      SELECT * FROM unnest((SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::bigint[]), (SELECT $5::text[]))
        WITH ORDINALITY AS i (id, lease_id, token, output, n)
      ORDER BY i.id COLLATE "C"
    ) i CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT t.ctid AS at FROM leasehold.task t
      WHERE t.namespace = $1 AND t.id = i.id AND t.state = 'running' AND t.lease_id = i.lease_id AND t.token = i.token AND c.now < t.expires_at
      FOR NO KEY UPDATE OF t SKIP LOCKED
    ) t
  ),
  changed AS (
    UPDATE leasehold.task t SET state = 'done', result = 'done', output = h.output,
      finished_at = c.now, delete_at = c.now + t.keep_done_ms * interval '1 millisecond'
    FROM held h CROSS JOIN clock c
    WHERE t.ctid = h.at
    RETURNING h.n, t.namespace, t.id, t.seq, t.attempt, t.holder, t.lease_id, t.token, t.ttl_ms,
      t.started_at, t.heartbeat_at, t.progress, t.queue, t.state
  ),
  kept AS (
    INSERT INTO leasehold.attempt
      (namespace, task_id, task_seq, attempt, holder, grant_id, token, ttl_ms, started_at,
       heartbeat_at, ended_at, result, error, progress)
    SELECT x.namespace, x.id, x.seq, x.attempt, x.holder, left(x.lease_id, 16), x.token, x.ttl_ms,
      x.started_at, x.heartbeat_at, c.now, 'done', NULL, x.progress
    FROM changed x CROSS JOIN clock c
  )
SELECT string_agg(x.n::text, ',') AS completed, (
    SELECT count(pg_notify('leasehold', json_build_array('ended', e.namespace, e.id)::text)::text)
    FROM changed e WHERE (SELECT EXISTS (SELECT FROM leasehold.result_wait)) AND true AND (
      SELECT true FROM leasehold.result_wait w WHERE w.namespace = e.namespace AND w.task_id = e.id
    )
  )::int AS ended FROM changed x
