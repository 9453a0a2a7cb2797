-- Marks a resource as paused in its lease row, which acquires read.
-- $1 namespace
-- $2 resource

INSERT INTO leasehold.lease AS l (namespace, resource, lease_id, holder, token, ttl_ms,
  granted_at, expires_at, ended, paused)
VALUES ($1, $2, '', '', 0, 0, clock_timestamp(), clock_timestamp(), 'released', true)
ON CONFLICT (namespace, resource) DO UPDATE SET paused = true WHERE NOT l.paused
