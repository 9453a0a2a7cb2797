-- Renews each grant of a batch that is live. Its one row lists their numbers and tokens:
-- lease-renew decides the others.
-- $1 namespace
-- $2 ttlMs
-- $3 resources
-- $4 leaseIds

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  locked AS MATERIALIZED (
    SELECT i.n, k.*
    FROM (
      SELECT * FROM unnest((SELECT $3::text[]), (SELECT $4::text[]))
        WITH ORDINALITY AS i (resource, asked_id, n)
      ORDER BY i.resource COLLATE "C"
    ) i CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.expires_at FROM leasehold.lease l
      WHERE l.namespace = $1 AND l.resource = i.resource AND l.lease_id = i.asked_id AND (l.ended IS NULL AND l.expires_at > c.now)
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
  ),
  renewed AS (
    UPDATE leasehold.lease l SET ttl_ms = $2::int, renewed_at = c.now,
      expires_at = greatest(k.expires_at, c.now + $2::int * interval '1 millisecond')
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at
    RETURNING k.n, k.expires_at, l.token
  )
SELECT date_part('epoch', c.now) * 1000 AS now, (SELECT string_agg(x.n || ':' || x.token || CASE WHEN x.expires_at > c.now + $2::int * interval '1 millisecond'
    THEN ':' || date_part('epoch', x.expires_at - c.now) * 1000 ELSE '' END, ',') FROM renewed x) AS renewed
FROM clock c
