-- Removes a limit.
-- $1 namespace
-- $2 scope
-- $3 name

WITH removed AS (
    DELETE FROM leasehold.task_limit l WHERE l.namespace = $1 AND l.scope = $2 AND l.name = $3
    RETURNING l.namespace
  )
SELECT pg_notify('leasehold', json_build_array('task', x.namespace, '')::text)::text AS notified FROM removed x
