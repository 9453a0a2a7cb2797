-- Forgets the failures of a key.
-- $1 namespace
-- $2 key

DELETE FROM leasehold.once_failure f WHERE f.namespace = $1 AND f.key = $2 RETURNING 1 AS deleted
