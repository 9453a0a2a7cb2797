-- Reads a page of tasks, the newest first.
-- $1 namespace
-- $2 limit

SELECT t.id::text AS id, t.kind, t.queue, t.priority, t.state, t.data, t.output, t.error,
  t.progress, t.dedupe_key AS "dedupeKey", t.attempt, t.failures, t.crashes,
  t.max_attempts AS "maxAttempts", t.crash_limit AS "crashLimit",
  (extract(epoch FROM t.created_at) * 1000000)::bigint AS "createdAt", (extract(epoch FROM t.scheduled_at) * 1000000)::bigint AS "scheduledAt",
  (extract(epoch FROM t.started_at) * 1000000)::bigint AS "startedAt", (extract(epoch FROM t.heartbeat_at) * 1000000)::bigint AS "heartbeatAt",
  (extract(epoch FROM t.expires_at) * 1000000)::bigint AS "expiresAt", t.holder, left(encode(sha256(convert_to(t.lease_id, 'UTF8')), 'hex'), 16) AS "grantId", t.token,
  (extract(epoch FROM t.finished_at) * 1000000)::bigint AS "finishedAt", (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now FROM leasehold.task t WHERE t.namespace = $1
ORDER BY t.id DESC LIMIT $2::int
