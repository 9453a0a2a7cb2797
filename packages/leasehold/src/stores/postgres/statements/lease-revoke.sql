-- Ends each grant for an operator, at once or at its expiry.
-- $1 namespaces
-- $2 resources
-- $3 expectedTokens
-- $4 freeNow

-- lines 7 to 13 of lease-renew.sql
      SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::float8[]), (SELECT $4::bool[]))
      WITH ORDINALITY AS i (namespace, resource, expected, free_now, n)
-- lines 16 to 22 of lease-renew.sql
    SELECT s.n, s.free_now, k.*
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.lease_id, l.holder, l.token, l.ttl_ms, l.granted_at, l.renewed_at,
        l.expires_at, l.ended, l.metadata, l.paused FROM leasehold.lease l
      WHERE l.ctid = s.at AND (l.ended IS DISTINCT FROM 'released' AND l.expires_at > c.now) AND coalesce(l.token = s.expected, true)
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
    WHERE (s.ended IS DISTINCT FROM 'released' AND s.expires_at > c.now) AND coalesce(s.token = s.expected, true)
  ),
  revoked AS (
    UPDATE leasehold.lease l SET ended = 'revoked',
      expires_at = CASE WHEN k.free_now THEN c.now ELSE k.expires_at END
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at
    RETURNING k.n, l.namespace, l.resource, l.token, l.expires_at, k.free_now
  )
SELECT x.n::int AS n, 'revoked' AS status, x.token, date_part('epoch', x.expires_at - c.now) * 1000 AS "freeInMs",
  CASE WHEN x.free_now THEN (
    SELECT pg_notify('leasehold', json_build_array('lease', f.namespace, f.resource, f.wakes)::text)::text
    FROM (
      SELECT w.namespace, w.resource, left(w.lease_id, 16) AS wakes FROM leasehold.waiter w
      WHERE w.namespace = x.namespace AND w.resource = x.resource AND w.expires_at > c.now AND true
      ORDER BY w.place LIMIT 1
    ) f
  ) END AS woken
FROM revoked x CROSS JOIN clock c
UNION ALL
SELECT s.n::int, CASE WHEN (s.ended IS DISTINCT FROM 'released' AND s.expires_at > c.now) THEN 'otherToken' ELSE 'notHeld' END, NULL, NULL, NULL
FROM seen s CROSS JOIN clock c
WHERE s.lease_id IS NULL OR NOT (s.ended IS DISTINCT FROM 'released' AND s.expires_at > c.now) OR s.token <> s.expected
