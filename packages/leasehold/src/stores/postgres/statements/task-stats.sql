-- Counts tasks by queue and kind, up to a limit of each state.
-- $1 namespace
-- $2 queues
-- $3 kinds
-- $4 limit
-- $5 versions

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT s.queue, s.kind, s.what, count(*)::int AS count,
  greatest(0, floor((extract(epoch FROM (SELECT now FROM clock) - min(s.due_at)) * 1000)))::float8 AS "dueForMs"
FROM (
  (SELECT t.queue, t.kind, 'due' AS what, greatest(t.scheduled_at, t.created_at) AS due_at
    FROM leasehold.task t WHERE t.namespace = $1 AND t.state = 'pending' AND t.scheduled_at <= (SELECT now FROM clock)
      AND ($2::text[] IS NULL OR t.queue = ANY ($2)) AND ($3::text[] IS NULL OR t.kind = ANY ($3))
      AND ($5::jsonb IS NULL OR t.version <= coalesce(($5 ->> t.kind)::int, 1))
    LIMIT $4::int)
  UNION ALL
  (SELECT t.queue, t.kind, 'pending' AS what, greatest(t.scheduled_at, t.created_at) AS due_at
    FROM leasehold.task t WHERE t.namespace = $1 AND t.state = 'pending' AND t.scheduled_at > (SELECT now FROM clock)
      AND ($2::text[] IS NULL OR t.queue = ANY ($2)) AND ($3::text[] IS NULL OR t.kind = ANY ($3))
      AND ($5::jsonb IS NULL OR t.version <= coalesce(($5 ->> t.kind)::int, 1))
    LIMIT $4::int)
  UNION ALL
  (SELECT t.queue, t.kind, 'running' AS what, greatest(t.scheduled_at, t.created_at) AS due_at
    FROM leasehold.task t WHERE t.namespace = $1 AND t.state = 'running'
      AND ($2::text[] IS NULL OR t.queue = ANY ($2)) AND ($3::text[] IS NULL OR t.kind = ANY ($3))
      AND ($5::jsonb IS NULL OR t.version <= coalesce(($5 ->> t.kind)::int, 1))
    LIMIT $4::int)
  UNION ALL
  (SELECT t.queue, t.kind, 'dead' AS what, greatest(t.scheduled_at, t.created_at) AS due_at
    FROM leasehold.task t WHERE t.namespace = $1 AND t.state = 'dead'
      AND ($2::text[] IS NULL OR t.queue = ANY ($2)) AND ($3::text[] IS NULL OR t.kind = ANY ($3))
      AND ($5::jsonb IS NULL OR t.version <= coalesce(($5 ->> t.kind)::int, 1))
    LIMIT $4::int)
  UNION ALL
  (SELECT t.queue, t.kind, 'cancelled' AS what, greatest(t.scheduled_at, t.created_at) AS due_at
    FROM leasehold.task t WHERE t.namespace = $1 AND t.state = 'cancelled'
      AND ($2::text[] IS NULL OR t.queue = ANY ($2)) AND ($3::text[] IS NULL OR t.kind = ANY ($3))
      AND ($5::jsonb IS NULL OR t.version <= coalesce(($5 ->> t.kind)::int, 1))
    LIMIT $4::int)
  UNION ALL
  (SELECT t.queue, t.kind, 'expired' AS what, greatest(t.scheduled_at, t.created_at) AS due_at
    FROM leasehold.task t WHERE t.namespace = $1 AND t.state = 'expired'
      AND ($2::text[] IS NULL OR t.queue = ANY ($2)) AND ($3::text[] IS NULL OR t.kind = ANY ($3))
      AND ($5::jsonb IS NULL OR t.version <= coalesce(($5 ->> t.kind)::int, 1))
    LIMIT $4::int)
  UNION ALL
  (SELECT t.queue, t.kind, 'done' AS what, greatest(t.scheduled_at, t.created_at) AS due_at
    FROM leasehold.task t WHERE t.namespace = $1 AND t.state = 'done'
      AND ($2::text[] IS NULL OR t.queue = ANY ($2)) AND ($3::text[] IS NULL OR t.kind = ANY ($3))
      AND ($5::jsonb IS NULL OR t.version <= coalesce(($5 ->> t.kind)::int, 1))
    LIMIT $4::int)
) s GROUP BY s.queue, s.kind, s.what ORDER BY s.queue, s.kind
