-- Records that the ends of tasks are awaited, so that they are notified.
-- $1 namespaces
-- $2 ids
-- $3 notifyMs

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
INSERT INTO leasehold.result_wait AS w (namespace, task_id, expires_at)
SELECT DISTINCT t.namespace, t.id, c.now + $3::float8 * interval '1 millisecond'
FROM unnest((SELECT $1::text[]), (SELECT $2::text[]))
      WITH ORDINALITY AS i (namespace, id, n) JOIN leasehold.task t ON t.namespace = i.namespace AND t.id = i.id CROSS JOIN clock c
WHERE t.state IN ('pending', 'running') AND NOT EXISTS (
  SELECT FROM leasehold.result_wait f WHERE f.namespace = t.namespace AND f.task_id = t.id
    AND f.expires_at > c.now + $3::float8 / 2 * interval '1 millisecond'
)
ORDER BY 1, 2
ON CONFLICT (namespace, task_id) DO UPDATE SET expires_at = greatest(w.expires_at, excluded.expires_at)
