-- Deletes the record of a key.
-- $1 namespace
-- $2 key

WITH failures AS (
    DELETE FROM leasehold.once_failure f WHERE f.namespace = $1 AND f.key = $2 RETURNING 1
  ),
  done AS (
    DELETE FROM leasehold.once o WHERE o.namespace = $1 AND o.key = $2 RETURNING 1
  )
SELECT 1 AS deleted FROM failures UNION ALL SELECT 1 FROM done
