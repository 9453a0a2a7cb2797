-- Adds each task unless its id or its dedupeKey is taken. Returns those that it added.
-- $1 namespaces
-- $2 ids
-- $3 kinds
-- $4 queues
-- $5 priorities
-- $6 data
-- $7 dedupeKeys
-- $8 scheduledMs
-- $9 maxAttempts
-- $10 crashLimits
-- $11 backoffMs
-- $12 maxBackoffMs
-- $13 keepDoneMs
-- $14 keepDeadMs
-- $15 concurrencyKeys
-- $16 concurrencyLimits
-- $17 concurrencyAny
-- $18 versions
-- $19 rateLimits
-- $20 ratePerMs
-- $21 maxRunMs
-- $22 startByMs
-- $23 backoffFactor
-- $24 backoffJitter

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  numbered AS MATERIALIZED (
    SELECT *, nextval('leasehold.task_seq') AS seq FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::text[]), (SELECT $5::smallint[]), (SELECT $6::text[]), (SELECT $7::text[]), (SELECT $8::float8[]), (SELECT $9::int[]), (SELECT $10::int[]), (SELECT $11::bigint[]), (SELECT $12::bigint[]), (SELECT $13::bigint[]), (SELECT $14::bigint[]), (SELECT $15::text[]), (SELECT $16::int[]), (SELECT $17::bool[]), (SELECT $18::smallint[]), (SELECT $19::int[]), (SELECT $20::bigint[]), (SELECT $21::bigint[]), (SELECT $22::float8[]), (SELECT $23::float8[]), (SELECT $24::float8[]))
      WITH ORDINALITY AS i (namespace, id, kind, queue, priority, data, dedupe_key, scheduled_ms, max_attempts, crash_limit, backoff_ms, max_backoff_ms, keep_done_ms, keep_dead_ms, concurrency_key, concurrency_limit, concurrency_any, version, concurrency_rate, concurrency_rate_ms, max_run_ms, start_by_ms, backoff_factor, backoff_jitter, n)
  ),
  added AS (
    INSERT INTO leasehold.task (namespace, id, seq, state, kind, queue, priority, data, dedupe_key,
      max_attempts, crash_limit, backoff_ms, max_backoff_ms, keep_done_ms, keep_dead_ms,
      concurrency_key, concurrency_limit, concurrency_any, concurrency_rate, concurrency_rate_ms,
      version, max_run_ms, start_by, backoff_factor, backoff_jitter, created_at, scheduled_at)
    SELECT i.namespace, i.id, i.seq, 'pending', i.kind, i.queue, i.priority, i.data, i.dedupe_key,
      i.max_attempts, i.crash_limit, i.backoff_ms, i.max_backoff_ms, i.keep_done_ms, i.keep_dead_ms,
      i.concurrency_key, i.concurrency_limit, i.concurrency_any, i.concurrency_rate, i.concurrency_rate_ms, i.version,
      i.max_run_ms, coalesce(to_timestamp(i.scheduled_ms / 1000), c.now) + i.start_by_ms * interval '1 millisecond', i.backoff_factor, i.backoff_jitter, c.now, coalesce(to_timestamp(i.scheduled_ms / 1000), c.now)
    FROM numbered i CROSS JOIN clock c
    ORDER BY i.namespace COLLATE "C", i.kind COLLATE "C", i.dedupe_key COLLATE "C",
      CASE WHEN i.dedupe_key IS NULL THEN i.id END COLLATE "C", i.seq
    ON CONFLICT DO NOTHING
    RETURNING namespace, id, queue, created_at, scheduled_at
  ),
  notified AS MATERIALIZED (
    SELECT pg_notify('leasehold', json_build_array('task', q.namespace, q.queue)::text)
    FROM (SELECT DISTINCT x.namespace, x.queue FROM added x WHERE x.scheduled_at <= x.created_at) q
    UNION ALL
    SELECT pg_notify('leasehold', json_build_array('task', q.namespace, q.queue, q.in_ms::text)::text)
    FROM (
      SELECT DISTINCT x.namespace, x.queue, i.in_ms FROM added x CROSS JOIN clock c CROSS JOIN LATERAL (
        SELECT (ceil(extract(epoch FROM x.scheduled_at - c.now) * 1000 / 20) * 20)::bigint AS in_ms
      ) i
      WHERE x.scheduled_at > c.now AND i.in_ms <= 600000
      ORDER BY 3 LIMIT 100
    ) q
  )
SELECT x.namespace, x.id, (SELECT count(*) FROM notified)::int AS notified FROM added x
