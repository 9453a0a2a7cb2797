-- Reads a task with its attempts.
-- $1 namespace
-- $2 id

SELECT t.id, t.kind, t.queue, t.priority, t.state, t.dedupe_key AS "dedupeKey",
  t.concurrency_key AS "concurrencyKey",
  t.concurrency_limit AS "perKey", t.concurrency_any AS "anyOrder",
  t.concurrency_rate AS "rateLimit", t.concurrency_rate_ms AS "ratePerMs", t.version,
  t.attempt, t.failures, t.crashes, t.max_attempts AS "maxAttempts", t.crash_limit AS "crashLimit",
  t.max_run_ms AS "maxRunMs", (extract(epoch FROM t.start_by) * 1000000)::bigint AS "startBy", t.postponed,
  (extract(epoch FROM t.created_at) * 1000000)::bigint AS "createdAt", (extract(epoch FROM t.scheduled_at) * 1000000)::bigint AS "scheduledAt",
  (extract(epoch FROM t.started_at) * 1000000)::bigint AS "startedAt", (extract(epoch FROM t.heartbeat_at) * 1000000)::bigint AS "heartbeatAt",
  (extract(epoch FROM t.expires_at) * 1000000)::bigint AS "expiresAt", t.holder, left(t.lease_id, 16) AS "grantId", t.token,
  (extract(epoch FROM t.finished_at) * 1000000)::bigint AS "finishedAt", (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now, t.data, t.output, t.error, t.progress, t.checkpoint, t.ttl_ms AS "ttlMs", (
    SELECT json_agg(json_build_object('attempt', a.attempt, 'holder', a.holder,
      'grantId', a.grant_id, 'token', a.token, 'ttlMs', coalesce(a.ttl_ms, 0),
      'startedAt', (extract(epoch FROM a.started_at) * 1000000)::bigint, 'heartbeatAt', (extract(epoch FROM a.heartbeat_at) * 1000000)::bigint,
      'endedAt', (extract(epoch FROM a.ended_at) * 1000000)::bigint, 'result', a.result, 'error', a.error,
      'progress', a.progress) ORDER BY a.attempt)::text
    FROM (
      SELECT e.*, row_number() OVER newest AS place,
        sum(coalesce(octet_length(e.error), 0) + coalesce(octet_length(e.progress), 0)) OVER newest
          + coalesce(CASE WHEN t.state = 'running' THEN octet_length(t.progress) END, 0) AS bytes
      FROM leasehold.attempt e WHERE e.namespace = t.namespace AND e.task_seq = t.seq
      WINDOW newest AS (ORDER BY e.attempt DESC ROWS UNBOUNDED PRECEDING)
    ) a
    WHERE a.attempt > t.attempt - 100
      AND (a.bytes <= 1048576 OR (a.place = 1 AND t.state <> 'running'))
  ) AS attempts
FROM leasehold.task t WHERE t.namespace = $1 AND t.id = $2
