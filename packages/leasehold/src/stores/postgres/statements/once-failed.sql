-- Finds the failure that an earlier call of the same grant has recorded.
-- $1 namespace
-- $2 key
-- $3 token

SELECT f.failures, CASE WHEN f.is_last THEN 'failed' ELSE 'failing' END AS state
FROM leasehold.once_failure f WHERE f.namespace = $1 AND f.key = $2 AND f.token = $3::bigint
