-- Reads the schedules of all namespaces that are due.
-- $1 limit
-- $2 revisions

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT date_part('epoch', c.now) * 1000 AS now, (
    SELECT date_part('epoch', min(s.due_at)) * 1000 FROM leasehold.schedule s WHERE s.paused_at IS NULL AND s.due_at > c.now
  ) AS "nextAt", d.*
FROM clock c LEFT JOIN LATERAL (
  SELECT s.namespace, s.name, s.revision, s.cron, s.time_zone AS "timeZone", s.every_ms AS "everyMs",
    s.catch_up AS "catchUp", s.overlap, s.jitter_ms AS "jitterMs", date_part('epoch', s.last_fire_at) * 1000 AS "lastFireAt",
    s.waiting, coalesce(t.state IN ('pending', 'running'), false) AS "isRunning"
  FROM leasehold.schedule s LEFT JOIN leasehold.task t ON t.namespace = s.namespace AND t.id = s.last_task_id
  WHERE s.paused_at IS NULL AND s.due_at <= c.now AND s.revision <> ALL ($2::bigint[])
  ORDER BY s.due_at LIMIT $1::int
) d ON true
