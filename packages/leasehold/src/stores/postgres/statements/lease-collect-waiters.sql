-- Deletes waiters that have expired.

WITH gone AS MATERIALIZED (
  SELECT namespace, resource, lease_id FROM leasehold.waiter
  WHERE expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED
)
DELETE FROM leasehold.waiter w USING gone g
WHERE w.namespace = g.namespace AND w.resource = g.resource AND w.lease_id = g.lease_id
