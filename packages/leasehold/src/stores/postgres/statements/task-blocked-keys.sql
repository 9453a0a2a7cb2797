-- Names the concurrency keys of which tasks wait for others, and those that they wait for.
-- $1 namespace
-- $2 limit

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  keys AS MATERIALIZED (
    SELECT t.namespace, t.queue, t.kind, t.concurrency_key AS key FROM (
      (SELECT t.* FROM leasehold.task t WHERE t.namespace = $1 AND t.concurrency_key IS NOT NULL AND t.state || '' = 'running' LIMIT 20000)
      UNION ALL
      (SELECT t.* FROM leasehold.task t WHERE t.namespace = $1 AND t.concurrency_key IS NOT NULL AND t.state = 'pending' LIMIT 20000)
    ) t
    WHERE t.state = 'running' OR (t.attempt > 0 AND t.scheduled_at > (SELECT now FROM clock))
    GROUP BY 1, 2, 3, 4
    UNION
    SELECT s.namespace, s.queue, s.kind, s.key FROM (
      SELECT s.* FROM leasehold.key_rate s WHERE s.namespace = $1 AND s.ends_at > (SELECT now FROM clock) LIMIT 20000
    ) s)
SELECT k.queue, k.kind, k.key, n.most AS "perKey", n.any_order AS "anyOrder", n.rate AS "rateLimit", n.per_ms AS "ratePerMs",
  p.pending, coalesce(r.by, h.by)::text AS by,
  CASE WHEN w.current AND w.permits <= 0 THEN (extract(epoch FROM w.ends_at) * 1000000)::bigint END AS "usedUpUntil"
FROM keys k CROSS JOIN clock c
  CROSS JOIN LATERAL (
    SELECT t.concurrency_limit AS most, t.concurrency_any AS any_order, t.concurrency_rate AS rate,
      t.concurrency_rate_ms AS per_ms
    FROM leasehold.task t
    WHERE t.namespace = k.namespace AND t.queue = k.queue
          AND t.kind = k.kind AND t.concurrency_key = k.key AND t.state = 'pending' ORDER BY (t.seq + 0) DESC LIMIT 1
  ) n
  LEFT JOIN leasehold.key_rate s
    ON s.namespace = k.namespace AND s.queue = k.queue AND s.kind = k.kind AND s.key = k.key
  CROSS JOIN LATERAL (
        SELECT v.current, s.window_start + n.per_ms * interval '1 millisecond' AS ends_at,
          CASE WHEN v.current THEN n.rate - s.window_used ELSE n.rate END AS permits
        FROM (SELECT coalesce(c.now >= s.window_start AND c.now < s.window_start + n.per_ms * interval '1 millisecond', false) AS current) v
  ) w
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS pending FROM (
      SELECT FROM leasehold.task t WHERE t.namespace = k.namespace AND t.queue = k.queue
          AND t.kind = k.kind AND t.concurrency_key = k.key AND t.state = 'pending' LIMIT 1000
    ) t
  ) p
  CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE c.now < t.expires_at) AS live,
      bool_or(c.now >= t.expires_at) AND NOT n.any_order AS stuck,
      json_agg(json_build_object('id', t.id, 'state', 'running', 'holder', t.holder,
        'until', (extract(epoch FROM t.expires_at) * 1000000)::bigint) ORDER BY t.seq) FILTER (WHERE t.place <= 10) AS by
    FROM (
      SELECT t.*, row_number() OVER (ORDER BY t.seq) AS place FROM leasehold.task t
      WHERE t.namespace = k.namespace AND t.queue = k.queue
          AND t.kind = k.kind AND t.concurrency_key = k.key AND t.state || '' = 'running'
    ) t
  ) r
  LEFT JOIN LATERAL (
    SELECT json_build_array(json_build_object('id', t.id, 'state', 'pending', 'holder', NULL,
      'until', (extract(epoch FROM t.scheduled_at) * 1000000)::bigint)) AS by, t.scheduled_at
    FROM leasehold.task t
    WHERE NOT n.any_order AND t.namespace = k.namespace AND t.queue = k.queue
          AND t.kind = k.kind AND t.concurrency_key = k.key AND t.state = 'pending'
      AND (t.scheduled_at <= c.now OR t.attempt > 0)
    ORDER BY (t.seq + 0) LIMIT 1
  ) h ON h.scheduled_at > c.now AND p.pending > 1
WHERE r.live >= n.most OR r.stuck OR h.by IS NOT NULL OR (w.current AND w.permits <= 0)
ORDER BY p.pending DESC, 1, 2, 3 LIMIT $2::int
