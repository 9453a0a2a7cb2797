-- Like lease-acquire, for a batch in which a request waits: it also adds waiters to the wait
-- queue, and removes those that it grants the lease.
-- $1 namespaces
-- $2 resources
-- $3 leaseIds
-- $4 holders
-- $5 ttlMs
-- $6 queueMs
-- $7 metadata

-- lines 11 to 28 of lease-acquire.sql
        AND s.lease_id <> i.asked_id AND true
-- lines 30 to 100 of lease-acquire.sql
  ),
  noted AS (
    INSERT INTO leasehold.waiter AS w (namespace, resource, lease_id, holder, expires_at, place)
    OVERRIDING SYSTEM VALUE
    SELECT o.namespace, o.resource, o.asked_id, o.asked_by,
      c.now + least(o.queue_ms, 60000) * interval '1 millisecond', pg_current_xact_id()::text::bigint * 1048576 + o.n
    FROM outcome o CROSS JOIN clock c
    WHERE o.status = 'held' AND o.queue_ms > 0 AND NOT EXISTS (
      -- The waiter's expiry is late enough: frequent polls need not write each time.
      SELECT FROM (
              SELECT w.* FROM leasehold.waiter w
              WHERE w.namespace = o.namespace AND w.resource = o.resource
                AND w.lease_id >= o.asked_id AND w.lease_id <= o.asked_id
              ORDER BY w.lease_id LIMIT 1
            ) own
      WHERE own.expires_at > c.now + least(o.queue_ms, 60000) / 2 * interval '1 millisecond'
    )
    ORDER BY o.namespace COLLATE "C", o.resource COLLATE "C", o.asked_id COLLATE "C"
    ON CONFLICT (namespace, resource, lease_id) DO UPDATE
      SET expires_at = greatest(w.expires_at, excluded.expires_at)
    RETURNING 1
  ),
  waiting AS MATERIALIZED (
    SELECT w.namespace, w.resource, w.lease_id FROM outcome o
      JOIN leasehold.waiter own ON own.namespace = o.namespace AND own.resource = o.resource AND own.lease_id = o.asked_id
      JOIN leasehold.waiter w ON w.namespace = o.namespace AND w.resource = o.resource AND w.place <= own.place
    WHERE o.status = 'acquired' AND (SELECT count(*) FROM noted) >= 0
    FOR UPDATE OF w SKIP LOCKED
  ),
  served AS (
    DELETE FROM leasehold.waiter w USING waiting o
    WHERE w.namespace = o.namespace AND w.resource = o.resource AND w.lease_id = o.lease_id
    RETURNING 1
-- lines 101 to 109 of lease-acquire.sql
