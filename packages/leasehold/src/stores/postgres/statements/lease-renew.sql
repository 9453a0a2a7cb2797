-- Renews each grant that is live. For the others it returns why they are lost.
-- $1 namespaces
-- $2 resources
-- $3 leaseIds
-- $4 ttlMs

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  ),
  seen AS MATERIALIZED (
    SELECT i.*, s.*
    FROM (
      SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::int[]))
      WITH ORDINALITY AS i (namespace, resource, asked_id, asked_ms, n)
      ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C"
    ) i CROSS JOIN clock c LEFT JOIN LATERAL (
      SELECT l.ctid AS at, l.lease_id, l.holder, l.token, l.ttl_ms, l.granted_at, l.renewed_at,
        l.expires_at, l.ended, l.metadata, l.paused FROM leasehold.lease l WHERE l.namespace = i.namespace AND l.resource = i.resource OFFSET 0
    ) s ON true
  ),
  locked AS MATERIALIZED (
    SELECT s.n, s.asked_ms, k.*
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.lease_id, l.holder, l.token, l.ttl_ms, l.granted_at, l.renewed_at,
        l.expires_at, l.ended, l.metadata, l.paused FROM leasehold.lease l
      WHERE l.ctid = s.at AND l.lease_id = s.asked_id AND l.ended IS NULL
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
    WHERE s.lease_id = s.asked_id AND s.ended IS NULL
  ),
  renewed AS (
    UPDATE leasehold.lease l SET ttl_ms = k.asked_ms, renewed_at = c.now,
      expires_at = greatest(k.expires_at, c.now + k.asked_ms * interval '1 millisecond')
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at AND (k.ended IS NULL AND k.expires_at > c.now)
    RETURNING k.n, l.token, l.ttl_ms, l.expires_at
  )
SELECT x.n::int AS n, 'renewed' AS status, NULL AS reason, x.token, x.ttl_ms AS "ttlMs",
  date_part('epoch', x.expires_at - c.now) * 1000 AS "remainingMs", date_part('epoch', x.expires_at) * 1000 AS "expiresAt"
FROM renewed x CROSS JOIN clock c
UNION ALL
SELECT k.n::int, 'lost', 'expired', NULL, NULL, NULL, NULL
FROM locked k CROSS JOIN clock c WHERE NOT (k.ended IS NULL AND k.expires_at > c.now)
UNION ALL
SELECT s.n::int, 'lost',
  CASE WHEN s.lease_id <> s.asked_id THEN 'taken' WHEN s.ended = 'revoked' THEN 'revoked'
    ELSE 'gone' END,
  NULL, NULL, NULL, NULL
FROM seen s WHERE s.lease_id IS NULL OR s.lease_id <> s.asked_id OR s.ended IS NOT NULL
