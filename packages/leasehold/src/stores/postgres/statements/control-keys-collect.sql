-- Deletes API keys that ended long ago.
-- $1 olderThanMs
-- $2 limit

WITH old AS MATERIALIZED (
  SELECT k.id FROM leasehold.api_key k WHERE k.expires_at <= now() + -$1::float8 * interval '1 millisecond'
  LIMIT $2::int FOR UPDATE SKIP LOCKED
)
DELETE FROM leasehold.api_key k USING old o WHERE k.id = o.id RETURNING 1
