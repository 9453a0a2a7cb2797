-- Like task-claim, for several queues, here two, and within the limits of kinds and queues.
-- $1 namespace
-- $2 claimId
-- $3 holder
-- $4 ttlMs
-- $5 limit
-- $6 kinds
-- $7 graceMs
-- $8 queue1
-- $9 queue2

-- lines 12 to 19 of task-claim.sql
  seen AS MATERIALIZED (
    SELECT l.ctid AS at, l.namespace, l.scope, l.name, l.running_most AS most, w.*
    FROM leasehold.task_limit l CROSS JOIN clock c CROSS JOIN LATERAL (
        SELECT v.current, l.window_start + l.rate_per_ms * interval '1 millisecond' AS ends_at,
          CASE WHEN v.current THEN l.rate_limit - l.window_used ELSE l.rate_limit END AS permits
        FROM (SELECT coalesce(c.now >= l.window_start AND c.now < l.window_start + l.rate_per_ms * interval '1 millisecond', false) AS current) v
      ) w
    WHERE l.namespace = $1 AND CASE l.scope
        WHEN 'kind' THEN $6::text[] IS NULL OR l.name = ANY ($6::text[])
        ELSE l.name = ANY (ARRAY[$8::text, $9::text]) END
      AND NOT EXISTS (SELECT FROM earlier)
  ),
  unreached AS MATERIALIZED (
    SELECT s.* FROM seen s
    WHERE coalesce(s.permits > 0, true) AND (s.most IS NULL OR s.most > CASE s.scope WHEN 'kind' THEN (SELECT count(*) FROM leasehold.task t WHERE t.namespace = s.namespace AND t.kind = s.name AND t.limited AND t.state || '' = 'running' AND t.kind || '' <> '' AND (SELECT now FROM clock) < t.expires_at) ELSE (SELECT count(*) FROM leasehold.task t WHERE t.namespace = s.namespace AND t.queue = s.name AND t.limited AND t.state || '' = 'running' AND t.queue || '' <> '' AND (SELECT now FROM clock) < t.expires_at) END)
  ),
  open AS MATERIALIZED (
    SELECT s.*, o.at AS locked FROM unreached s CROSS JOIN LATERAL (
      SELECT o.ctid AS at FROM leasehold.task_limit o
      WHERE o.namespace = $1 AND o.scope = s.scope AND o.name = s.name
      FOR NO KEY UPDATE OF o SKIP LOCKED
    ) o
  ),
  -- On its own, and no join: without statistics, the planner would count once for each pair of limits.
  within AS MATERIALIZED (
    SELECT o.scope, o.name, least(o.permits, CASE WHEN o.most IS NOT NULL THEN o.most - CASE o.scope WHEN 'kind' THEN (SELECT count(*) - (
            SELECT count(*) FROM (
              SELECT FROM leasehold.task t WHERE t.namespace = o.namespace AND t.kind = o.name AND t.limited AND t.state || '' = 'running' AND t.kind || '' <> '' AND (SELECT now FROM clock) >= t.expires_at
              FOR NO KEY UPDATE OF t SKIP LOCKED
            ) e
          ) FROM leasehold.task t WHERE t.namespace = o.namespace AND t.kind = o.name AND t.limited AND t.state || '' = 'running' AND t.kind || '' <> '') ELSE (SELECT count(*) - (
            SELECT count(*) FROM (
              SELECT FROM leasehold.task t WHERE t.namespace = o.namespace AND t.queue = o.name AND t.limited AND t.state || '' = 'running' AND t.queue || '' <> '' AND (SELECT now FROM clock) >= t.expires_at
              FOR NO KEY UPDATE OF t SKIP LOCKED
            ) e
          ) FROM leasehold.task t WHERE t.namespace = o.namespace AND t.queue = o.name AND t.limited AND t.state || '' = 'running' AND t.queue || '' <> '') END END) AS free
    FROM open o WHERE o.at = o.locked
  ),
  places AS MATERIALIZED (
    SELECT o.scope, o.name, greatest(o.free, 0)::int AS free, true AS own FROM within o
    UNION ALL
    SELECT s.scope, s.name, 0, false FROM seen s
    WHERE (s.scope, s.name) NOT IN (SELECT o.scope, o.name FROM within o)
  ),
  looked AS MATERIALIZED (
    SELECT d.* FROM unnest(ARRAY[$8::text, $9::text]) AS q (queue) CROSS JOIN LATERAL (
      SELECT d.ctid AS at, d.namespace, d.queue, d.kind, d.key, d.priority FROM leasehold.due_key d
      WHERE d.namespace = $1 AND d.queue = q.queue AND d.due_at <= (SELECT now FROM clock)
        AND ($6::text[] IS NULL OR d.kind = ANY ($6::text[])) AND (d.version = 1 OR $6::text[] IS NULL
          OR d.kind || E'\x01' || d.version = ANY ($6::text[])) AND d.kind NOT IN (SELECT p.name FROM places p WHERE p.scope = 'kind' AND p.free = 0) AND d.queue NOT IN (SELECT p.name FROM places p WHERE p.scope = 'queue' AND p.free = 0)
-- lines 26 to 115 of task-claim.sql
  wanted AS MATERIALIZED (
    SELECT w.queue, w.kind, least(pq.free, pk.free) AS free FROM (
      SELECT q.queue, k.kind FROM (
        SELECT q.queue FROM unnest(ARRAY[$8::text, $9::text]) AS q (queue)
        WHERE q.queue IS NOT NULL AND q.queue NOT IN (SELECT p.name FROM places p WHERE p.scope = 'queue' AND p.free = 0) ORDER BY random()
      ) q CROSS JOIN LATERAL (
        SELECT DISTINCT g.kind FROM unnest($6::text[]) AS g (kind) WHERE g.kind NOT LIKE E'%\x01%'
        UNION ALL
        SELECT f.kind FROM (
          WITH RECURSIVE found AS (
            (SELECT t.kind FROM leasehold.task t WHERE t.namespace = $1 AND t.queue = q.queue AND t.state = 'pending'
            AND t.concurrency_key IS NULL AND t.kind || '' <> '' ORDER BY t.kind LIMIT 1)
            UNION ALL
            SELECT (
              SELECT t.kind FROM leasehold.task t WHERE t.namespace = $1 AND t.queue = q.queue AND t.state = 'pending'
            AND t.concurrency_key IS NULL AND t.kind || '' <> '' AND t.kind > f.kind
              ORDER BY t.kind LIMIT 1
            ) FROM found f WHERE f.kind IS NOT NULL
          )
          SELECT f.kind FROM found f WHERE f.kind IS NOT NULL
        ) f WHERE $6::text[] IS NULL
      ) k LIMIT 2000
    ) w
      LEFT JOIN places pq ON pq.scope = 'queue' AND pq.name = w.queue
      LEFT JOIN places pk ON pk.scope = 'kind' AND pk.name = w.kind
    WHERE coalesce(pk.free, 1) > 0 AND NOT EXISTS (SELECT FROM earlier)
  ),
  candidates AS MATERIALIZED (
    SELECT w.queue, w.kind, t.* FROM wanted w CROSS JOIN LATERAL (
      SELECT t.seq, t.priority, t.scheduled_at FROM leasehold.task t
      WHERE t.namespace = $1 AND t.queue = w.queue AND t.state = 'pending'
            AND t.concurrency_key IS NULL AND t.kind || '' <> '' AND t.kind = w.kind AND t.scheduled_at <= (SELECT now FROM clock)
        AND (t.start_by IS NULL OR t.start_by > (SELECT now FROM clock) OR t.attempt > 0) AND (t.version = 1 OR $6::text[] IS NULL
          OR t.kind || E'\x01' || t.version = ANY ($6::text[]))
      ORDER BY t.priority, t.scheduled_at, t.seq LIMIT least(w.free, 2 * $5::int + 20)
    ) t
  ),
  -- A queue without places has no candidates, so that what the first cut leaves makes progress.
  allowed AS MATERIALIZED (
    SELECT x.* FROM (
      SELECT x.*, row_number() OVER (PARTITION BY x.queue ORDER BY x.priority, x.scheduled_at, x.seq) AS of_queue FROM (
        SELECT x.*, row_number() OVER (PARTITION BY x.kind ORDER BY x.priority, x.scheduled_at, x.seq) AS of_kind FROM (
          SELECT c.queue, c.kind, c.seq, c.priority, c.scheduled_at, NULL AS key FROM candidates c
          UNION ALL
          SELECT h.queue, h.kind, h.seq, h.priority, h.scheduled_at, h.key FROM heads h
        ) x
      ) x LEFT JOIN places p ON p.scope = 'kind' AND p.name = x.kind
      WHERE p.free IS NULL OR x.of_kind <= p.free
    ) x LEFT JOIN places p ON p.scope = 'queue' AND p.name = x.queue
    WHERE p.free IS NULL OR x.of_queue <= p.free
  ),
  allowed_heads AS MATERIALIZED (
    SELECT h.* FROM heads h WHERE h.seq IN (SELECT x.seq FROM allowed x WHERE x.key IS NOT NULL)
  ),
  plain AS MATERIALIZED (
    SELECT $1::text AS namespace, x.queue, x.priority, x.scheduled_at, x.seq, t.bytes FROM (
      SELECT x.* FROM allowed x WHERE x.key IS NULL ORDER BY x.priority, x.scheduled_at, x.seq
    ) x CROSS JOIN LATERAL (
      SELECT octet_length(t.data) + coalesce(octet_length(t.checkpoint), 0) AS bytes FROM leasehold.task t
      WHERE t.namespace = $1 AND t.seq = x.seq AND t.state = 'pending' AND t.scheduled_at <= (SELECT now FROM clock)
      FOR NO KEY UPDATE OF t SKIP LOCKED
    ) t
    ORDER BY x.priority, x.scheduled_at, x.seq LIMIT $5::int
-- lines 125 to 134 of task-claim.sql
        FROM (SELECT h.* FROM allowed_heads h ORDER BY h.priority, h.scheduled_at, h.seq LIMIT $5::int) h CROSS JOIN LATERAL (
-- lines 136 to 167 of task-claim.sql
      heartbeat_at = NULL, expires_at = least(c.now + $4::int * interval '1 millisecond', c.now + (t.max_run_ms + $7::bigint) * interval '1 millisecond'), run_until = c.now + (t.max_run_ms + $7::bigint) * interval '1 millisecond', result = NULL, progress = NULL,
      limited = EXISTS (
        SELECT FROM seen s WHERE s.name = CASE s.scope WHEN 'kind' THEN t.kind ELSE t.queue END
      )
-- lines 169 to 228 of task-claim.sql
  ),
  charged AS (
    UPDATE leasehold.task_limit o SET window_start = CASE WHEN s.current THEN o.window_start ELSE c.now END,
      window_used = CASE WHEN s.current THEN o.window_used ELSE 0 END + s.started
    FROM clock c CROSS JOIN (
      SELECT s.at, s.current, (
        SELECT count(*)::int FROM claimed x WHERE s.name = CASE s.scope WHEN 'kind' THEN x.kind ELSE x.queue END
      ) AS started
      FROM seen s
    ) s
    WHERE o.ctid = s.at AND s.started > 0
-- lines 229 to 236 of task-claim.sql
  x.id IS NULL AND (EXISTS (SELECT FROM looked) OR EXISTS (
    SELECT FROM unreached s JOIN places p ON p.scope = s.scope AND p.name = s.name WHERE NOT p.own
  )) AS undecided,
  true AS limited, (extract(epoch FROM least((SELECT min(k.ends_at) FROM paced k WHERE k.current AND k.permits <= 0), (SELECT min(s.ends_at) FROM seen s WHERE s.current AND s.permits <= 0)) - c.now) * 1000)::float8 AS "retryInMs"
FROM clock c LEFT JOIN (SELECT * FROM claimed UNION ALL SELECT * FROM own) x ON true
ORDER BY x.priority, x.scheduled_at, x.seq
