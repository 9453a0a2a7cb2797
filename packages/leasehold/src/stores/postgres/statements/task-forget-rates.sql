-- Deletes windows of rates that have ended long ago.
-- $1 keptMs

WITH old AS MATERIALIZED (
    SELECT s.ctid AS at FROM leasehold.key_rate s
    WHERE s.ends_at < clock_timestamp() - $1::float8 * interval '1 millisecond'
    LIMIT 10000
    FOR UPDATE OF s SKIP LOCKED
  )
DELETE FROM leasehold.key_rate s USING old WHERE s.ctid = old.at
