-- Resumes a paused schedule, from now on.
-- $1 namespace
-- $2 name

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
UPDATE leasehold.schedule s SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, revision = nextval('leasehold.task_seq'),
  last_fire_at = greatest(s.last_fire_at, date_trunc('milliseconds', c.now)), due_at = date_trunc('milliseconds', c.now)
FROM clock c WHERE s.namespace = $1 AND s.name = $2 AND s.paused_at IS NOT NULL
RETURNING 1 AS changed
