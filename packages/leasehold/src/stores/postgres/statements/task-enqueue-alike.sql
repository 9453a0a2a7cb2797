-- Like task-enqueue, for tasks that differ in their ids and data only. Returns how many it added,
-- and which unless all.
-- $1 namespace
-- $2 ids
-- $3 kind
-- $4 queue
-- $5 priority
-- $6 data
-- $7 dedupeKey
-- $8 scheduledMs
-- $9 maxAttempts
-- $10 crashLimit
-- $11 backoffMs
-- $12 maxBackoffMs
-- $13 keepDoneMs
-- $14 keepDeadMs
-- $15 concurrencyKey
-- $16 concurrencyLimit
-- $17 concurrencyAny
-- $18 version
-- $19 rateLimit
-- $20 ratePerMs
-- $21 maxRunMs
-- $22 startByMs
-- $23 backoffFactor
-- $24 backoffJitter

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  numbered AS MATERIALIZED (
    SELECT $1::text AS namespace, i.id, $3::text AS kind, $4::text AS queue, $5::smallint AS priority, i.data, $7::text AS dedupe_key, $8::float8 AS scheduled_ms, $9::int AS max_attempts, $10::int AS crash_limit, $11::bigint AS backoff_ms, $12::bigint AS max_backoff_ms, $13::bigint AS keep_done_ms, $14::bigint AS keep_dead_ms, $15::text AS concurrency_key, $16::int AS concurrency_limit, $17::bool AS concurrency_any, $18::smallint AS version, $19::int AS concurrency_rate, $20::bigint AS concurrency_rate_ms, $21::bigint AS max_run_ms, $22::float8 AS start_by_ms, $23::float8 AS backoff_factor, $24::float8 AS backoff_jitter, nextval('leasehold.task_seq') AS seq
    FROM unnest($2::text[], $6::text[]) AS i (id, data)
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
SELECT a.added, (SELECT count(*) FROM notified)::int AS notified, CASE WHEN a.added < cardinality($2::text[])
  THEN (SELECT string_agg(x.id, chr(10)) FROM added x) END AS ids
FROM (SELECT count(*)::int AS added FROM added) a
