-- Deletes claims that are too old to be repeated.
-- $1 keptMs

DELETE FROM leasehold.claim
WHERE claimed_at < clock_timestamp() - $1::float8 * interval '1 millisecond'
