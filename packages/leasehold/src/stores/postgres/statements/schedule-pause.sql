-- Pauses a schedule that is not paused.
-- $1 namespace
-- $2 name
-- $3 by
-- $4 reason

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
UPDATE leasehold.schedule s SET paused_at = c.now, paused_by = $3, pause_reason = $4, revision = nextval('leasehold.task_seq')
FROM clock c WHERE s.namespace = $1 AND s.name = $2 AND s.paused_at IS NULL
RETURNING 1 AS changed
