-- Grants one lease if it is free, not paused and without waiters. If not, it returns no row:
-- lease-acquire decides.
-- $1 namespace
-- $2 resource
-- $3 leaseId
-- $4 holder
-- $5 ttlMs
-- $6 metadata

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  ),
  locked AS MATERIALIZED (
    SELECT s.*, l.ctid AS at, l.lease_id, l.holder, l.token, l.ttl_ms, l.granted_at, l.renewed_at,
        l.expires_at, l.ended, l.metadata, l.paused FROM (
      SELECT 1 AS n, $1::text AS namespace, $2::text AS resource, $3::text AS asked_id,
        $4::text AS asked_by, $5::int AS asked_ms, 0 AS queue_ms, $6::text AS asked_metadata
    ) s CROSS JOIN clock c JOIN leasehold.lease l ON l.namespace = s.namespace AND l.resource = s.resource
    WHERE l.lease_id <> s.asked_id AND NOT (l.ended IS DISTINCT FROM 'released' AND l.expires_at > c.now) AND NOT l.paused AND NOT EXISTS (
      SELECT FROM leasehold.waiter w WHERE w.namespace = s.namespace AND w.resource = s.resource AND w.expires_at > c.now
    )
    FOR NO KEY UPDATE OF l SKIP LOCKED
-- lines 47 to 61 of lease-acquire.sql
    FROM (
      SELECT 1 AS n, $1::text AS namespace, $2::text AS resource, $3::text AS asked_id,
        $4::text AS asked_by, $5::int AS asked_ms, 0 AS queue_ms, $6::text AS asked_metadata
    ) s CROSS JOIN clock c WHERE (SELECT count(*) FROM granted) = 0
-- lines 64 to 81 of lease-acquire.sql
-- lines 101 to 109 of lease-acquire.sql
