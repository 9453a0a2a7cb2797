-- Deletes ended grants that are old.
-- $1 olderThanMs
-- $2 limit

WITH old AS MATERIALIZED (
  SELECT h.namespace, h.resource, h.grant_id FROM leasehold.grant_history h
  WHERE coalesce(h.expires_at, h.recorded_at) <= now() - $1::float8 * interval '1 millisecond'
  ORDER BY coalesce(h.expires_at, h.recorded_at)
  LIMIT $2::int
  FOR UPDATE SKIP LOCKED
)
DELETE FROM leasehold.grant_history h USING old o
WHERE h.namespace = o.namespace AND h.resource = o.resource AND h.grant_id = o.grant_id
RETURNING 1
