-- Declares the limit of a kind or a queue. If it is so already, it writes nothing.
-- $1 namespace
-- $2 scope
-- $3 name
-- $4 running
-- $5 rateLimit
-- $6 ratePerMs
-- $7 by
-- $8 mostLimits

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  before AS MATERIALIZED (
    SELECT (l.running_most, l.rate_limit, l.rate_per_ms)
      IS NOT DISTINCT FROM ($4::int, $5::int, $6::bigint) AS same
    FROM leasehold.task_limit l WHERE l.namespace = $1 AND l.scope = $2 AND l.name = $3
  ),
  declared AS (
    INSERT INTO leasehold.task_limit AS l
      (namespace, scope, name, running_most, rate_limit, rate_per_ms, declared_at, declared_by)
    SELECT $1, $2, $3, $4::int, $5::int, $6::bigint, c.now, $7 FROM clock c
    WHERE CASE WHEN EXISTS (SELECT FROM before) THEN NOT (SELECT b.same FROM before b)
      ELSE (SELECT count(*) FROM leasehold.task_limit l WHERE l.namespace = $1) < $8::int END
    ON CONFLICT (namespace, scope, name) DO UPDATE SET running_most = excluded.running_most,
      rate_limit = excluded.rate_limit, rate_per_ms = excluded.rate_per_ms,
      declared_at = excluded.declared_at, declared_by = excluded.declared_by
    RETURNING l.namespace
  )
SELECT CASE WHEN b.same THEN 'none' WHEN b.same IS NOT NULL THEN 'changed' WHEN x.namespace IS NULL THEN 'full'
    ELSE 'added' END AS change, CASE WHEN x.namespace IS NOT NULL THEN pg_notify('leasehold', json_build_array('task', x.namespace, '')::text)::text END AS notified
FROM (SELECT) one LEFT JOIN before b ON true LEFT JOIN declared x ON true
