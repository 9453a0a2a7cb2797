-- Counts a failure; the release of the lease follows in the same transaction.
-- $1 namespace
-- $2 resource
-- $3 leaseId
-- $4 token
-- $5 key
-- $6 error
-- $7 maxAttempts
-- $8 retryDelayMs

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  ),
  held AS MATERIALIZED (
    SELECT l.holder, l.token FROM leasehold.lease l CROSS JOIN clock c
    WHERE l.namespace = $1 AND l.resource = $2 AND l.lease_id = $3 AND l.token = $4::bigint AND (l.ended IS NULL AND l.expires_at > c.now)
    FOR NO KEY UPDATE OF l
  )
INSERT INTO leasehold.once_failure AS f
  (namespace, key, failures, is_last, error, token, holder, failed_at, next_at)
SELECT $1, $5, 1, coalesce(1 >= $7::int, false), $6, h.token, h.holder, c.now, c.now + $8::float8 * interval '1 millisecond'
FROM held h CROSS JOIN clock c
WHERE NOT EXISTS (SELECT FROM leasehold.once o WHERE o.namespace = $1 AND o.key = $5 AND (o.keep_until IS NULL OR o.keep_until > c.now))
ON CONFLICT (namespace, key) DO UPDATE SET failures = f.failures + 1, is_last = coalesce(f.failures + 1 >= $7::int, false),
  error = excluded.error, token = excluded.token, holder = excluded.holder, failed_at = excluded.failed_at,
  next_at = excluded.next_at
RETURNING f.failures, CASE WHEN f.is_last THEN 'failed' ELSE 'failing' END AS state
