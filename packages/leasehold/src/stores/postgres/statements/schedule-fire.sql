-- Enqueues tasks and moves their schedule on, unless it has changed since it was read.
-- $1 ids
-- $2 scheduledMs
-- $3 namespace
-- $4 name
-- $5 revision
-- $6 lastFireMs
-- $7 waiting
-- $8 dueMs
-- $9 skipped

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  held AS MATERIALIZED (
    SELECT s.ctid AS at FROM leasehold.schedule s
    WHERE s.namespace = $3 AND s.name = $4
      AND ($5::bigint IS NULL OR (s.revision = $5 AND s.paused_at IS NULL))
    FOR NO KEY UPDATE OF s SKIP LOCKED
  ),
  fires AS MATERIALIZED (
    SELECT i.*, nextval('leasehold.task_seq') AS seq FROM unnest((SELECT $1::text[]), (SELECT $2::float8[]))
      WITH ORDINALITY AS i (id, scheduled_ms, n)
  ),
  moved AS (
    UPDATE leasehold.schedule s SET revision = nextval('leasehold.task_seq'),
      last_fire_at = coalesce(to_timestamp($6::float8 / 1000), s.last_fire_at), waiting = coalesce($7, s.waiting),
      due_at = coalesce(to_timestamp($8::float8 / 1000), s.due_at), skipped = s.skipped + $9::int,
      fired = s.fired + (
        SELECT count(*) FROM fires f
        WHERE NOT EXISTS (SELECT FROM leasehold.task t WHERE t.namespace = s.namespace AND t.id = f.id)
      ),
      last_task_id = coalesce((SELECT f.id FROM fires f ORDER BY f.n DESC LIMIT 1), s.last_task_id)
    FROM held h WHERE s.ctid = h.at
    RETURNING s.*
  ),
  added AS (
    INSERT INTO leasehold.task (namespace, id, seq, state, kind, queue, priority, data,
      max_attempts, crash_limit, backoff_ms, max_backoff_ms, keep_done_ms, keep_dead_ms,
      concurrency_key, concurrency_limit, concurrency_any, concurrency_rate, concurrency_rate_ms,
      version, max_run_ms, start_by, backoff_factor, backoff_jitter, created_at, scheduled_at)
    SELECT m.namespace, f.id, f.seq, 'pending', m.kind, m.queue, m.priority, m.data,
      m.max_attempts, m.crash_limit, m.backoff_ms, m.max_backoff_ms, m.keep_done_ms, m.keep_dead_ms,
      m.concurrency_key, m.concurrency_limit, m.concurrency_any, m.concurrency_rate, m.concurrency_rate_ms, m.version,
      m.max_run_ms, coalesce(to_timestamp(f.scheduled_ms / 1000), c.now) + m.start_by_ms * interval '1 millisecond',
      m.backoff_factor, m.backoff_jitter, c.now, coalesce(to_timestamp(f.scheduled_ms / 1000), c.now)
    FROM moved m CROSS JOIN fires f CROSS JOIN clock c ORDER BY f.n
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
SELECT m.kind, m.queue, (SELECT count(*) FROM notified)::int AS notified,
  ARRAY(SELECT a.id FROM added a JOIN fires f USING (id) ORDER BY f.n) AS "taskIds" FROM moved m
