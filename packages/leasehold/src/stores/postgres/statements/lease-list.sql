-- Reads a page of leases, in the order of their resources.
-- $1 namespace
-- $2 from
-- $3 to
-- $4 cursor
-- $5 states
-- $6 renewedOnly
-- $7 limit
-- $8 holder
-- $9 expiringWithinMs
-- $10 heldForMs

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  )
SELECT l.namespace, l.resource, l.holder, left(l.lease_id, 16) AS "grantId", l.token,
  CASE WHEN (l.ended IS NULL AND l.expires_at > c.now) THEN 'live' ELSE coalesce(l.ended, 'expired') END AS state,
  l.ttl_ms AS "ttlMs", CASE WHEN (l.ended IS NULL AND l.expires_at > c.now) THEN date_part('epoch', l.expires_at - c.now) * 1000 ELSE 0 END AS "remainingMs",
  CASE WHEN l.ended = 'revoked' AND (l.ended IS DISTINCT FROM 'released' AND l.expires_at > c.now) THEN date_part('epoch', l.expires_at - c.now) * 1000 END AS "freeInMs",
  date_part('epoch', l.granted_at) * 1000 AS "grantedAt", date_part('epoch', l.renewed_at) * 1000 AS "renewedAt",
  date_part('epoch', l.expires_at) * 1000 AS "expiresAt", l.metadata FROM leasehold.lease l CROSS JOIN clock c
WHERE l.namespace = $1 AND l.resource >= $2 AND ($3::text IS NULL OR l.resource < $3)
  AND l.resource > $4 AND ($5::text[] IS NULL OR CASE WHEN (l.ended IS NULL AND l.expires_at > c.now) THEN 'live' ELSE coalesce(l.ended, 'expired') END = ANY ($5))
  AND (NOT $6::bool OR l.renewed_at IS NOT NULL) AND l.lease_id <> ''
  AND ($8::text IS NULL OR l.holder = $8)
  AND ($9::float8 IS NULL OR ((l.ended IS NULL AND l.expires_at > c.now) AND l.expires_at <= c.now + $9::float8 * interval '1 millisecond'))
  AND ($10::float8 IS NULL OR ((l.ended IS NULL AND l.expires_at > c.now) AND l.granted_at <= c.now + -($10::float8) * interval '1 millisecond'))
ORDER BY l.resource
LIMIT $7::int
