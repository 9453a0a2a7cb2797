-- Makes each task whose grant is live pending again, without a failure.
-- $1 namespaces
-- $2 ids
-- $3 leaseIds
-- $4 tokens

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  input AS MATERIALIZED (SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::bigint[]))
      WITH ORDINALITY AS i (namespace, id, lease_id, token, n)),
-- lines 11 to 19 of task-complete.sql
    UPDATE leasehold.task t SET state = 'pending', result = 'returned'
    FROM held h WHERE t.ctid = h.at
-- lines 24 to 31 of task-complete.sql
      x.started_at, x.heartbeat_at, c.now, 'returned', NULL, x.progress
    FROM changed x CROSS JOIN clock c
  ),
  notified AS MATERIALIZED (
    SELECT pg_notify('leasehold', json_build_array('task', q.namespace, q.queue)::text)
    FROM (SELECT DISTINCT x.namespace, x.queue FROM changed x) q
  )
SELECT x.n::int AS n, (SELECT count(*) FROM notified)::int AS notified FROM changed x
