-- Reads the leases of these resources.
-- $1 namespaces
-- $2 resources

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  ),
  seen AS MATERIALIZED (
    SELECT i.*, s.*
    FROM (
      SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]))
      WITH ORDINALITY AS i (namespace, resource, n)
      ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C"
    ) i CROSS JOIN clock c LEFT JOIN LATERAL (
      SELECT l.ctid AS at, l.lease_id, l.holder, l.token, l.ttl_ms, l.granted_at, l.renewed_at,
        l.expires_at, l.ended, l.metadata, l.paused FROM leasehold.lease l WHERE l.namespace = i.namespace AND l.resource = i.resource OFFSET 0
    ) s ON true
  )
SELECT l.n::int AS n, l.namespace, l.resource, l.holder, left(l.lease_id, 16) AS "grantId", l.token,
  CASE WHEN (l.ended IS NULL AND l.expires_at > c.now) THEN 'live' ELSE coalesce(l.ended, 'expired') END AS state,
  l.ttl_ms AS "ttlMs", CASE WHEN (l.ended IS NULL AND l.expires_at > c.now) THEN date_part('epoch', l.expires_at - c.now) * 1000 ELSE 0 END AS "remainingMs",
  CASE WHEN l.ended = 'revoked' AND (l.ended IS DISTINCT FROM 'released' AND l.expires_at > c.now) THEN date_part('epoch', l.expires_at - c.now) * 1000 END AS "freeInMs",
  date_part('epoch', l.granted_at) * 1000 AS "grantedAt", date_part('epoch', l.renewed_at) * 1000 AS "renewedAt",
  date_part('epoch', l.expires_at) * 1000 AS "expiresAt", l.metadata FROM seen l CROSS JOIN clock c WHERE l.lease_id <> ''
