-- Reads a page of tasks, the newest first.
-- $1 namespace
-- $2 limit

SELECT t.id, t.kind, t.queue, t.priority, t.state, t.dedupe_key AS "dedupeKey",
  t.concurrency_key AS "concurrencyKey",
  t.concurrency_limit AS "perKey", t.concurrency_any AS "anyOrder",
  t.concurrency_rate AS "rateLimit", t.concurrency_rate_ms AS "ratePerMs", t.version,
  t.attempt, t.failures, t.crashes, t.max_attempts AS "maxAttempts", t.crash_limit AS "crashLimit",
  t.max_run_ms AS "maxRunMs", (extract(epoch FROM t.start_by) * 1000000)::bigint AS "startBy", t.postponed,
  (extract(epoch FROM t.created_at) * 1000000)::bigint AS "createdAt", (extract(epoch FROM t.scheduled_at) * 1000000)::bigint AS "scheduledAt",
  (extract(epoch FROM t.started_at) * 1000000)::bigint AS "startedAt", (extract(epoch FROM t.heartbeat_at) * 1000000)::bigint AS "heartbeatAt",
  (extract(epoch FROM t.expires_at) * 1000000)::bigint AS "expiresAt", t.holder, left(t.lease_id, 16) AS "grantId", t.token,
  (extract(epoch FROM t.finished_at) * 1000000)::bigint AS "finishedAt", (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now, t.seq,
  octet_length(t.data) > 1024 AS "dataCut",
  left(t.data, CASE WHEN octet_length(t.data) > 1024
    THEN 200 ELSE 1024 END) AS data,
  octet_length(t.output) > 1024 AS "outputCut",
  left(t.output, CASE WHEN octet_length(t.output) > 1024
    THEN 200 ELSE 1024 END) AS output,
  octet_length(t.error) > 1024 AS "errorCut",
  left(t.error, CASE WHEN octet_length(t.error) > 1024
    THEN 200 ELSE 1024 END) AS error,
  octet_length(t.progress) > 1024 AS "progressCut",
  left(t.progress, CASE WHEN octet_length(t.progress) > 1024
    THEN 200 ELSE 1024 END) AS progress FROM (
  SELECT t.* FROM leasehold.task t WHERE t.namespace = $1
  ORDER BY t.seq DESC LIMIT $2::int
) t ORDER BY t.seq DESC
