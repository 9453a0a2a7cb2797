-- Counts due tasks by queue and kind, up to a limit.
-- $1 namespace
-- $2 dueForMs
-- $3 limit

SELECT d.queue, d.kind, count(*) AS tasks, (extract(epoch FROM min(d.due_at)) * 1000000)::bigint AS "dueAt",
  (extract(epoch FROM max(d.started_at)) * 1000000)::bigint AS "startedAt"
FROM (
  SELECT t.queue, t.kind, t.started_at, greatest(t.scheduled_at, t.created_at) AS due_at
  FROM leasehold.task t
  WHERE t.namespace = $1 AND t.state = 'pending'
    AND greatest(t.scheduled_at, t.created_at)
      <= clock_timestamp() - $2::float8 * interval '1 millisecond'
  LIMIT $3::int
) d GROUP BY d.queue, d.kind
