-- Makes each task whose grant is live pending again, without a failure: at once, or later.
-- $1 namespaces
-- $2 ids
-- $3 leaseIds
-- $4 tokens
-- $5 retryInMs
-- $6 reasons

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  input AS MATERIALIZED (SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::bigint[]), (SELECT $5::float8[]), (SELECT $6::text[]))
      WITH ORDINALITY AS i (namespace, id, lease_id, token, retry_in_ms, reason, n)),
-- lines 11 to 19 of task-complete.sql
    UPDATE leasehold.task t SET state = 'pending', result = 'returned',
      scheduled_at = coalesce(c.now + h.retry_in_ms * interval '1 millisecond', t.scheduled_at),
      postponed = t.postponed + CASE WHEN h.retry_in_ms IS NULL THEN 0 ELSE 1 END
    FROM held h CROSS JOIN clock c WHERE t.ctid = h.at
    RETURNING h.n, t.namespace, t.id, t.seq, t.attempt, t.holder, t.lease_id, t.token, t.ttl_ms,
      t.started_at, t.heartbeat_at, t.progress, t.queue, t.state, h.reason, t.scheduled_at
-- lines 26 to 31 of task-complete.sql
      x.started_at, x.heartbeat_at, c.now, 'returned', x.reason, x.progress
    FROM changed x CROSS JOIN clock c
  ),
  notified AS MATERIALIZED (
    SELECT pg_notify('leasehold', json_build_array('task', q.namespace, q.queue)::text)
    FROM (SELECT DISTINCT x.namespace, x.queue FROM changed x CROSS JOIN clock c WHERE x.scheduled_at <= c.now) q
    UNION ALL
    SELECT pg_notify('leasehold', json_build_array('task', q.namespace, q.queue, q.in_ms::text)::text)
    FROM (
      SELECT DISTINCT x.namespace, x.queue, i.in_ms FROM changed x CROSS JOIN clock c CROSS JOIN LATERAL (
        SELECT (ceil(extract(epoch FROM x.scheduled_at - c.now) * 1000 / 20) * 20)::bigint AS in_ms
      ) i
      WHERE x.scheduled_at > c.now AND i.in_ms <= 600000
      ORDER BY 3 LIMIT 100
    ) q
  )
SELECT x.n::int AS n, (SELECT count(*) FROM notified)::int AS notified FROM changed x
