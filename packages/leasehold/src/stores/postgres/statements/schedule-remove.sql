-- Deletes a schedule.
-- $1 namespace
-- $2 name

DELETE FROM leasehold.schedule s WHERE s.namespace = $1 AND s.name = $2 RETURNING 1 AS changed
