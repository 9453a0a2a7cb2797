-- Removes the mark of a paused resource, and wakes the first waiter.
-- $1 namespace
-- $2 resource

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  ),
  unpaused AS (
    UPDATE leasehold.lease l SET paused = false
    WHERE l.namespace = $1 AND l.resource = $2 AND l.paused AND l.lease_id <> ''
  ),
  forgotten AS (
    DELETE FROM leasehold.lease l WHERE l.namespace = $1 AND l.resource = $2 AND l.lease_id = ''
  )
SELECT (
    SELECT pg_notify('leasehold', json_build_array('lease', f.namespace, f.resource, f.wakes)::text)::text
    FROM (
      SELECT w.namespace, w.resource, left(w.lease_id, 16) AS wakes FROM leasehold.waiter w
      WHERE w.namespace = k.namespace AND w.resource = k.resource AND w.expires_at > c.now AND true
      ORDER BY w.place LIMIT 1
    ) f
  ) AS woken
FROM (SELECT $1::text AS namespace, $2::text AS resource) k CROSS JOIN clock c
