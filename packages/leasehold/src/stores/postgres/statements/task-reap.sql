-- Ends grants on tasks that have expired: the task is pending again, or dead.
-- $1 limit

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  held AS MATERIALIZED (
    SELECT t.ctid AS at FROM leasehold.task t
    WHERE t.state = 'running' AND t.expires_at <= (SELECT now FROM clock)
    ORDER BY t.namespace, t.id LIMIT $1::int
    FOR NO KEY UPDATE OF t SKIP LOCKED
  ),
  changed AS (
    UPDATE leasehold.task t SET result = 'expired', crashes = t.crashes + 1,
      state = CASE WHEN t.crashes + 1 >= t.crash_limit THEN 'dead' ELSE 'pending' END,
      finished_at = CASE WHEN t.crashes + 1 >= t.crash_limit THEN c.now END,
      delete_at = CASE WHEN t.crashes + 1 >= t.crash_limit THEN c.now + t.keep_dead_ms * interval '1 millisecond' END
    FROM held h CROSS JOIN clock c WHERE t.ctid = h.at
    RETURNING t.namespace, t.id, t.seq, t.attempt, t.holder, t.lease_id, t.token, t.ttl_ms,
      t.started_at, t.heartbeat_at, t.progress, t.queue, t.state
  ),
  kept AS (
    INSERT INTO leasehold.attempt
      (namespace, task_id, task_seq, attempt, holder, grant_id, token, ttl_ms, started_at,
       heartbeat_at, ended_at, result, error, progress)
    SELECT x.namespace, x.id, x.seq, x.attempt, x.holder, left(x.lease_id, 16), x.token, x.ttl_ms,
      x.started_at, x.heartbeat_at, c.now, 'expired', NULL, x.progress
    FROM changed x CROSS JOIN clock c
  ),
  notified AS MATERIALIZED (
    SELECT pg_notify('leasehold', json_build_array('task', q.namespace, q.queue)::text)
    FROM (SELECT DISTINCT x.namespace, x.queue FROM changed x WHERE x.state = 'pending') q
  ),
  late AS MATERIALIZED (
    SELECT t.ctid AS at FROM leasehold.task t
    WHERE t.state = 'pending' AND t.start_by <= (SELECT now FROM clock) AND t.attempt = 0
    ORDER BY t.start_by LIMIT $1::int
    FOR NO KEY UPDATE OF t SKIP LOCKED
  ),
  missed AS (
    UPDATE leasehold.task t SET state = 'expired', finished_at = c.now, delete_at = c.now + t.keep_dead_ms * interval '1 millisecond'
    FROM late h CROSS JOIN clock c WHERE t.ctid = h.at
    RETURNING t.namespace, t.id
  )
SELECT x.namespace, x.id, x.holder, x.token, x.state, (SELECT count(*) FROM notified)::int AS notified, (
    SELECT count(pg_notify('leasehold', json_build_array('ended', e.namespace, e.id)::text)::text)
    FROM changed e WHERE (SELECT EXISTS (SELECT FROM leasehold.result_wait)) AND e.state = 'dead' AND (
      SELECT true FROM leasehold.result_wait w WHERE w.namespace = e.namespace AND w.task_id = e.id
    )
  )::int AS ended FROM changed x
UNION ALL
SELECT x.namespace, x.id, NULL, NULL, 'expired', 0, (
    SELECT count(pg_notify('leasehold', json_build_array('ended', e.namespace, e.id)::text)::text)
    FROM missed e WHERE (SELECT EXISTS (SELECT FROM leasehold.result_wait)) AND true AND (
      SELECT true FROM leasehold.result_wait w WHERE w.namespace = e.namespace AND w.task_id = e.id
    )
  )::int AS ended FROM missed x
