-- Like lease-renew-live, for requests of several namespaces or TTLs.
-- $1 namespaces
-- $2 resources
-- $3 leaseIds
-- $4 ttlMs

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  locked AS MATERIALIZED (
    SELECT i.n, i.asked_ms, k.*
    FROM (
      SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::int[]))
      WITH ORDINALITY AS i (namespace, resource, asked_id, asked_ms, n)
      ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C"
    ) i CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.expires_at FROM leasehold.lease l
      WHERE l.namespace = i.namespace AND l.resource = i.resource AND l.lease_id = i.asked_id AND (l.ended IS NULL AND l.expires_at > c.now)
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
  ),
  renewed AS (
    UPDATE leasehold.lease l SET ttl_ms = k.asked_ms, renewed_at = c.now,
      expires_at = greatest(k.expires_at, c.now + k.asked_ms * interval '1 millisecond')
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at
    RETURNING k.*, l.token
  )
SELECT date_part('epoch', c.now) * 1000 AS now, (SELECT string_agg(x.n || ':' || x.token || CASE WHEN x.expires_at > c.now + x.asked_ms * interval '1 millisecond'
    THEN ':' || date_part('epoch', x.expires_at - c.now) * 1000 ELSE '' END, ',') FROM renewed x) AS renewed
FROM clock c
