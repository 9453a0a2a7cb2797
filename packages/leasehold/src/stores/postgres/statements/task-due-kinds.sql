-- Counts due tasks by queue, kind and version, up to a limit.
-- $1 namespace
-- $2 dueForMs
-- $3 limit
-- $4 queues
-- $5 kinds

SELECT d.queue, d.kind, d.version, count(*) AS tasks, (extract(epoch FROM min(d.due_at)) * 1000000)::bigint AS "dueAt",
  (extract(epoch FROM max(d.started_at)) * 1000000)::bigint AS "startedAt"
FROM (
  SELECT t.queue, t.kind, t.version, t.started_at, greatest(t.scheduled_at, t.created_at) AS due_at
  FROM leasehold.task t
  WHERE t.namespace = $1 AND t.state = 'pending'
    -- Follows from the next condition, and is in the indexes: tasks of later are not read.
    AND t.scheduled_at <= clock_timestamp() - $2::float8 * interval '1 millisecond'
    AND greatest(t.scheduled_at, t.created_at)
      <= clock_timestamp() - $2::float8 * interval '1 millisecond'
    AND ($4::text[] IS NULL OR t.queue = ANY ($4)) AND ($5::text[] IS NULL OR t.kind = ANY ($5))
  LIMIT $3::int
) d GROUP BY d.queue, d.kind, d.version
