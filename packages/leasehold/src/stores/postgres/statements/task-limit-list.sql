-- Lists the limits with what they keep back now.
-- $1 namespace

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT l.scope, l.name, l.running_most AS running, l.rate_limit AS "rateLimit", l.rate_per_ms AS "ratePerMs",
  (extract(epoch FROM l.declared_at) * 1000000)::bigint AS "declaredAt", l.declared_by AS "declaredBy", r.live,
  CASE WHEN r.live >= l.running_most THEN r.by::text END AS by,
  CASE WHEN w.current THEN l.window_used ELSE 0 END AS started,
  CASE WHEN w.current AND w.permits <= 0 THEN (extract(epoch FROM w.ends_at) * 1000000)::bigint END AS "usedUpUntil"
FROM leasehold.task_limit l CROSS JOIN clock c
  CROSS JOIN LATERAL (
        SELECT v.current, l.window_start + l.rate_per_ms * interval '1 millisecond' AS ends_at,
          CASE WHEN v.current THEN l.rate_limit - l.window_used ELSE l.rate_limit END AS permits
        FROM (SELECT coalesce(c.now >= l.window_start AND c.now < l.window_start + l.rate_per_ms * interval '1 millisecond', false) AS current) v
  ) w
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS live, json_agg(json_build_object('id', t.id, 'state', 'running', 'holder', t.holder,
      'until', (extract(epoch FROM t.expires_at) * 1000000)::bigint) ORDER BY t.seq) FILTER (WHERE t.place <= 10) AS by
    FROM (
      SELECT t.id, t.seq, t.holder, t.expires_at, row_number() OVER (ORDER BY t.seq) AS place FROM (
        SELECT t.* FROM leasehold.task t
        WHERE l.scope = 'kind' AND t.namespace = l.namespace AND t.kind = l.name AND t.limited AND t.state || '' = 'running' AND t.kind || '' <> ''
        UNION ALL
        SELECT t.* FROM leasehold.task t
        WHERE l.scope = 'queue' AND t.namespace = l.namespace AND t.queue = l.name AND t.limited AND t.state || '' = 'running' AND t.queue || '' <> ''
      ) t WHERE c.now < t.expires_at
    ) t
  ) r
WHERE l.namespace = $1 ORDER BY l.scope, l.name
