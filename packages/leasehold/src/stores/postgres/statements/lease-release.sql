-- Ends each grant, or removes the waiter of that lease id, and wakes the next waiter.
-- $1 namespaces
-- $2 resources
-- $3 leaseIds

-- lines 7 to 13 of lease-renew.sql
      SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]))
      WITH ORDINALITY AS i (namespace, resource, asked_id, n)
-- lines 16 to 22 of lease-renew.sql
    SELECT s.n, s.asked_id, k.*
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.lease_id, l.holder, l.token, l.ttl_ms, l.granted_at, l.renewed_at,
        l.expires_at, l.ended, l.metadata, l.paused FROM leasehold.lease l
      WHERE l.ctid = s.at AND l.lease_id = s.asked_id AND l.ended IS DISTINCT FROM 'released'
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
    WHERE s.lease_id = s.asked_id AND s.ended IS DISTINCT FROM 'released'
  ),
  released AS (
    UPDATE leasehold.lease l SET ended = 'released', expires_at = c.now
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at AND (k.ended IS DISTINCT FROM 'released' AND k.expires_at > c.now)
    RETURNING k.n, l.namespace, l.resource
  ),
  ticket AS MATERIALIZED (
    -- A resource that this very statement releases is reserved for its first waiter, as one that was free before.
    SELECT w.*, coalesce((s.ended IS DISTINCT FROM 'released' AND s.expires_at > c.now), false) AND NOT EXISTS (
      SELECT FROM released r WHERE r.namespace = s.namespace AND r.resource = s.resource
    ) AS excluded
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT w.namespace, w.resource, w.lease_id FROM leasehold.waiter w
      WHERE w.namespace = s.namespace AND w.resource = s.resource AND w.lease_id = s.asked_id
      FOR UPDATE OF w SKIP LOCKED
    ) w
  ),
  withdrawn AS (
    DELETE FROM leasehold.waiter w USING ticket t
    WHERE w.namespace = t.namespace AND w.resource = t.resource AND w.lease_id = t.lease_id
    RETURNING w.namespace, w.resource, w.place, t.excluded
  ),
  -- A resource reserved for this waiter is now reserved for the next one.
  passed_on AS MATERIALIZED (
    SELECT (
    SELECT pg_notify('leasehold', json_build_array('lease', f.namespace, f.resource, f.wakes)::text)::text
    FROM (
      SELECT w.namespace, w.resource, left(w.lease_id, 16) AS wakes FROM leasehold.waiter w
      WHERE w.namespace = t.namespace AND w.resource = t.resource AND w.expires_at > c.now AND w.place > t.place
      ORDER BY w.place LIMIT 1
    ) f
  ) FROM withdrawn t CROSS JOIN clock c
    WHERE NOT t.excluded
  )
SELECT x.n::int AS n, 'released' AS status, (
    SELECT pg_notify('leasehold', json_build_array('lease', f.namespace, f.resource, f.wakes)::text)::text
    FROM (
      SELECT w.namespace, w.resource, left(w.lease_id, 16) AS wakes FROM leasehold.waiter w
      WHERE w.namespace = x.namespace AND w.resource = x.resource AND w.expires_at > c.now AND true
      ORDER BY w.place LIMIT 1
    ) f
  ) AS woken
FROM released x CROSS JOIN clock c
UNION ALL
SELECT k.n::int, 'notHeld', NULL FROM locked k CROSS JOIN clock c WHERE NOT (k.ended IS DISTINCT FROM 'released' AND k.expires_at > c.now)
UNION ALL
SELECT s.n::int, CASE WHEN s.lease_id = s.asked_id THEN 'released' ELSE 'notHeld' END, NULL
FROM seen s
WHERE (s.lease_id IS NULL OR s.lease_id <> s.asked_id OR s.ended = 'released')
  AND (SELECT count(*) FROM passed_on) >= 0
