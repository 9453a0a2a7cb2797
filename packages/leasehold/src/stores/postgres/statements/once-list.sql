-- Reads a page of records, by key.
-- $1 namespace
-- $2 firstKey
-- $3 rangeEnd
-- $4 afterKey
-- $5 states
-- $6 limit

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  )
SELECT r.* FROM (
SELECT o.key, 'done' AS state, o.value, o.holder AS by, date_part('epoch', o.done_at) * 1000 AS at, o.token, 0 AS failures,
  NULL AS error, 0::float8 AS "nextInMs", date_part('epoch', o.keep_until) * 1000 AS "keepUntil"
FROM leasehold.once o CROSS JOIN clock c WHERE o.namespace = $1 AND o.key >= $2
  AND ($3::text IS NULL OR o.key < $3) AND o.key > $4 AND (o.keep_until IS NULL OR o.keep_until > c.now)
UNION ALL
SELECT f.key, CASE WHEN f.is_last THEN 'failed' ELSE 'failing' END, NULL, f.holder, date_part('epoch', f.failed_at) * 1000,
  f.token, f.failures, f.error,
  CASE WHEN f.is_last THEN 0 ELSE greatest(0, date_part('epoch', f.next_at - c.now) * 1000) END, NULL
FROM leasehold.once_failure f CROSS JOIN clock c WHERE f.namespace = $1 AND f.key >= $2
  AND ($3::text IS NULL OR f.key < $3) AND f.key > $4
  AND NOT EXISTS (
    SELECT FROM leasehold.once o WHERE o.namespace = f.namespace AND o.key = f.key AND (o.keep_until IS NULL OR o.keep_until > c.now)
  )
) r WHERE $5::text[] IS NULL OR r.state = ANY ($5) ORDER BY r.key LIMIT $6::int
