-- Adds a schedule, or changes what is declared of it. A pause stays.
-- $1 namespace
-- $2 name
-- $3 mostSchedules
-- $4 cron
-- $5 timeZone
-- $6 everyMs
-- $7 catchUp
-- $8 overlap
-- $9 jitterMs
-- $10 kind
-- $11 queue
-- $12 priority
-- $13 data
-- $14 maxAttempts
-- $15 crashLimit
-- $16 backoffMs
-- $17 maxBackoffMs
-- $18 keepDoneMs
-- $19 keepDeadMs
-- $20 concurrencyKey
-- $21 concurrencyLimit
-- $22 concurrencyAny
-- $23 version
-- $24 rateLimit
-- $25 ratePerMs
-- $26 maxRunMs
-- $27 startByMs
-- $28 backoffFactor
-- $29 backoffJitter

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  before AS MATERIALIZED (
    SELECT s.revision FROM leasehold.schedule s WHERE s.namespace = $1 AND s.name = $2
  )
INSERT INTO leasehold.schedule AS s (namespace, name, cron, time_zone, every_ms, catch_up, overlap, jitter_ms, kind, queue, priority, data, max_attempts, crash_limit, backoff_ms, max_backoff_ms, keep_done_ms, keep_dead_ms, concurrency_key, concurrency_limit, concurrency_any, version, concurrency_rate, concurrency_rate_ms, max_run_ms, start_by_ms, backoff_factor, backoff_jitter, declared_at, revision, last_fire_at, due_at)
SELECT $1, $2, $4::text, $5::text, $6::bigint, $7::int, $8::text, $9::bigint, $10::text, $11::text, $12::smallint, $13::text, $14::int, $15::int, $16::bigint, $17::bigint, $18::bigint, $19::bigint, $20::text, $21::int, $22::bool, $23::smallint, $24::int, $25::bigint, $26::bigint, $27::bigint, $28::float8, $29::float8,
  c.now, nextval('leasehold.task_seq'), date_trunc('milliseconds', c.now), date_trunc('milliseconds', c.now)
FROM clock c
WHERE EXISTS (SELECT FROM before)
  OR (SELECT count(*) FROM leasehold.schedule s WHERE s.namespace = $1) < $3::int
ON CONFLICT (namespace, name) DO UPDATE SET
  cron = excluded.cron, time_zone = excluded.time_zone, every_ms = excluded.every_ms, catch_up = excluded.catch_up, overlap = excluded.overlap, jitter_ms = excluded.jitter_ms, kind = excluded.kind, queue = excluded.queue, priority = excluded.priority, data = excluded.data, max_attempts = excluded.max_attempts, crash_limit = excluded.crash_limit, backoff_ms = excluded.backoff_ms, max_backoff_ms = excluded.max_backoff_ms, keep_done_ms = excluded.keep_done_ms, keep_dead_ms = excluded.keep_dead_ms, concurrency_key = excluded.concurrency_key, concurrency_limit = excluded.concurrency_limit, concurrency_any = excluded.concurrency_any, version = excluded.version, concurrency_rate = excluded.concurrency_rate, concurrency_rate_ms = excluded.concurrency_rate_ms, max_run_ms = excluded.max_run_ms, start_by_ms = excluded.start_by_ms, backoff_factor = excluded.backoff_factor, backoff_jitter = excluded.backoff_jitter,
  declared_at = excluded.declared_at,
  revision = CASE WHEN (s.cron, s.time_zone, s.every_ms, s.catch_up, s.overlap, s.jitter_ms, s.kind, s.queue, s.priority, s.data, s.max_attempts, s.crash_limit, s.backoff_ms, s.max_backoff_ms, s.keep_done_ms, s.keep_dead_ms, s.concurrency_key, s.concurrency_limit, s.concurrency_any, s.version, s.concurrency_rate, s.concurrency_rate_ms, s.max_run_ms, s.start_by_ms, s.backoff_factor, s.backoff_jitter) IS DISTINCT FROM (excluded.cron, excluded.time_zone, excluded.every_ms, excluded.catch_up, excluded.overlap, excluded.jitter_ms, excluded.kind, excluded.queue, excluded.priority, excluded.data, excluded.max_attempts, excluded.crash_limit, excluded.backoff_ms, excluded.max_backoff_ms, excluded.keep_done_ms, excluded.keep_dead_ms, excluded.concurrency_key, excluded.concurrency_limit, excluded.concurrency_any, excluded.version, excluded.concurrency_rate, excluded.concurrency_rate_ms, excluded.max_run_ms, excluded.start_by_ms, excluded.backoff_factor, excluded.backoff_jitter) THEN excluded.revision ELSE s.revision END,
  last_fire_at = CASE WHEN (s.cron, s.time_zone, s.every_ms) IS DISTINCT FROM (excluded.cron, excluded.time_zone, excluded.every_ms) THEN greatest(s.last_fire_at, excluded.last_fire_at) ELSE s.last_fire_at END,
  due_at = CASE WHEN (s.cron, s.time_zone, s.every_ms) IS DISTINCT FROM (excluded.cron, excluded.time_zone, excluded.every_ms) THEN excluded.due_at ELSE s.due_at END
RETURNING s.revision, (SELECT b.revision FROM before b) AS before
