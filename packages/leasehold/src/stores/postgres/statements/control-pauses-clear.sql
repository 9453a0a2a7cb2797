-- Deletes a pause.
-- $1 namespace
-- $2 kind
-- $3 name

DELETE FROM leasehold.pause p WHERE p.namespace = $1 AND p.kind = $2 AND p.name = $3 RETURNING 1
