-- Reads a schedule, with its last task.
-- $1 namespace
-- $2 name

SELECT s.name, s.revision, s.cron, s.time_zone AS "timeZone", s.every_ms AS "everyMs", s.catch_up AS "catchUp",
  s.overlap, s.jitter_ms AS "jitterMs", s.kind, s.queue, s.priority, s.data, s.max_attempts AS "maxAttempts",
  s.crash_limit AS "crashLimit", s.backoff_ms AS "firstMs", s.max_backoff_ms AS "longestMs",
  coalesce(s.backoff_factor, 2) AS factor,
  coalesce(s.backoff_jitter, 0.5) AS jitter,
  s.keep_done_ms AS "keepDoneMs", s.keep_dead_ms AS "keepDeadMs", s.concurrency_key AS "concurrencyKey",
  s.concurrency_limit AS "perKey", s.concurrency_any AS "anyOrder",
  s.concurrency_rate AS "rateLimit", s.concurrency_rate_ms AS "ratePerMs", s.version, s.max_run_ms AS "maxRunMs",
  s.start_by_ms AS "startByMs", date_part('epoch', s.declared_at) * 1000 AS "declaredAt",
  date_part('epoch', s.paused_at) * 1000 AS "pausedAt", s.paused_by AS "pausedBy", s.pause_reason AS "pauseReason",
  date_part('epoch', s.last_fire_at) * 1000 AS "lastFireAt", s.waiting, s.fired, s.skipped, s.last_task_id AS "taskId",
  t.state AS "taskState", date_part('epoch', t.finished_at) * 1000 AS "taskFinishedAt",
  CASE WHEN octet_length(t.error) > 1024 THEN left(t.error, 200) || '…' ELSE t.error END AS "taskError"
FROM leasehold.schedule s LEFT JOIN leasehold.task t ON t.namespace = s.namespace AND t.id = s.last_task_id WHERE s.namespace = $1 AND s.name = $2
