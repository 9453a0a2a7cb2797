-- Records the failure of each task whose grant is live: a retry after its backoff, or dead.
-- $1 namespaces
-- $2 ids
-- $3 leaseIds
-- $4 tokens
-- $5 errors
-- $6 retryInMs
-- $7 final
-- $8 random

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  input AS MATERIALIZED (SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::bigint[]), (SELECT $5::text[]), (SELECT $6::float8[]), (SELECT $7::bool[]), (SELECT $8::float8[]))
      WITH ORDINALITY AS i (namespace, id, lease_id, token, error, retry_in_ms, final, random, n)),
  held AS MATERIALIZED (
    SELECT i.*, t.* FROM (SELECT * FROM input ORDER BY namespace COLLATE "C", id COLLATE "C") i
      CROSS JOIN clock c CROSS JOIN LATERAL (
        SELECT t.ctid AS at, t.failures, t.max_attempts, t.backoff_ms,
      t.max_backoff_ms, t.backoff_factor, t.backoff_jitter FROM leasehold.task t
        WHERE t.namespace = i.namespace AND t.id = i.id AND (t.state = 'running' AND t.lease_id = i.lease_id AND t.token = i.token AND c.now < t.expires_at)
        FOR NO KEY UPDATE OF t SKIP LOCKED
      ) t
  ),
  decided AS (
    SELECT h.*, h.final OR h.failures + 1 >= h.max_attempts AS dead,
      c.now + coalesce(h.retry_in_ms, round(
    least(h.backoff_ms * power(coalesce(h.backoff_factor, 2), least(h.failures, 60)), h.max_backoff_ms)
    * (1 - coalesce(h.backoff_jitter, 0.5) * (1 - h.random)))) * interval '1 millisecond' AS retry_at
    FROM held h CROSS JOIN clock c
  ),
  changed AS (
    UPDATE leasehold.task t SET result = 'failed', error = h.error, failures = t.failures + 1,
      state = CASE WHEN h.dead THEN 'dead' ELSE 'pending' END,
      finished_at = CASE WHEN h.dead THEN c.now END,
      delete_at = CASE WHEN h.dead THEN c.now + t.keep_dead_ms * interval '1 millisecond' END,
      scheduled_at = CASE WHEN h.dead THEN t.scheduled_at ELSE h.retry_at END
    FROM decided h CROSS JOIN clock c
    WHERE t.ctid = h.at
    RETURNING h.n, t.namespace, t.id, t.seq, t.attempt, t.holder, t.lease_id, t.token, t.ttl_ms,
      t.started_at, t.heartbeat_at, t.progress, t.queue, t.state, t.error, t.scheduled_at
  ),
  kept AS (
    INSERT INTO leasehold.attempt
      (namespace, task_id, task_seq, attempt, holder, grant_id, token, ttl_ms, started_at,
       heartbeat_at, ended_at, result, error, progress)
    SELECT x.namespace, x.id, x.seq, x.attempt, x.holder, left(x.lease_id, 16), x.token, x.ttl_ms,
      x.started_at, x.heartbeat_at, c.now, 'failed', x.error, x.progress
    FROM changed x CROSS JOIN clock c
  ),
  notified AS MATERIALIZED (
    SELECT pg_notify('leasehold', json_build_array('task', q.namespace, q.queue)::text)
    FROM (SELECT DISTINCT x.namespace, x.queue FROM changed x CROSS JOIN clock c WHERE x.state = 'pending' AND x.scheduled_at <= c.now) q
  )
SELECT x.n::int AS n, x.state,
  (extract(epoch FROM x.scheduled_at - c.now) * 1000)::float8 AS "retryInMs", (SELECT count(*) FROM notified)::int AS notified, (
    SELECT count(pg_notify('leasehold', json_build_array('ended', e.namespace, e.id)::text)::text)
    FROM changed e WHERE (SELECT EXISTS (SELECT FROM leasehold.result_wait)) AND e.state = 'dead' AND (
      SELECT true FROM leasehold.result_wait w WHERE w.namespace = e.namespace AND w.task_id = e.id
    )
  )::int AS ended
FROM changed x CROSS JOIN clock c
