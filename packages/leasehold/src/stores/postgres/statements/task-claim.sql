-- Claims the first due tasks of one queue, with a concurrency key and without. A repeated claim
-- returns those of its tasks that it still holds.
-- $1 namespace
-- $2 claimId
-- $3 holder
-- $4 ttlMs
-- $5 limit
-- $6 kinds
-- $7 graceMs
-- $8 queue

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  digest AS MATERIALIZED (
    SELECT left(d.hex, 8) AS public, substr(d.hex, 17, 32) AS secret
    FROM (SELECT encode(sha256(convert_to($2, 'UTF8')), 'hex') AS hex) d
  ),
  earlier AS MATERIALIZED (
    SELECT n.task_seqs FROM leasehold.claim n WHERE n.namespace = $1 AND n.claim_id = $2
  ),
  looked AS MATERIALIZED (
    SELECT d.* FROM unnest(ARRAY[$8::text]) AS q (queue) CROSS JOIN LATERAL (
      SELECT d.ctid AS at, d.namespace, d.queue, d.kind, d.key, d.priority FROM leasehold.due_key d
      WHERE d.namespace = $1 AND d.queue = q.queue AND d.due_at <= (SELECT now FROM clock)
        AND ($6::text[] IS NULL OR d.kind = ANY ($6::text[])) AND (d.version = 1 OR $6::text[] IS NULL
          OR d.kind || E'\x01' || d.version = ANY ($6::text[])) AND true
        AND NOT EXISTS (SELECT FROM earlier)
      ORDER BY d.priority, d.due_at LIMIT $5::int
      FOR UPDATE OF d SKIP LOCKED
    ) d
  ),
  keys AS MATERIALIZED (SELECT DISTINCT namespace, queue, kind, key FROM looked),
  added AS (
    INSERT INTO leasehold.task_key (namespace, queue, kind, key, claimed_at)
    SELECT k.namespace, k.queue, k.kind, k.key, c.now FROM keys k CROSS JOIN clock c
    WHERE NOT EXISTS (SELECT FROM leasehold.task_key o WHERE o.namespace = k.namespace AND o.queue = k.queue
          AND o.kind = k.kind AND o.key = k.key)
    ORDER BY k.queue COLLATE "C", k.kind COLLATE "C", k.key COLLATE "C"
    ON CONFLICT DO NOTHING
    RETURNING namespace, queue, kind, key
  ),
  found AS MATERIALIZED (
    SELECT k.*, o.at FROM keys k CROSS JOIN LATERAL (
      SELECT o.ctid AS at FROM leasehold.task_key o WHERE o.namespace = k.namespace AND o.queue = k.queue
          AND o.kind = k.kind AND o.key = k.key
      FOR NO KEY UPDATE OF o SKIP LOCKED
    ) o
  ),
  locked AS (
    UPDATE leasehold.task_key o SET claimed_at = c.now FROM found f CROSS JOIN clock c
    WHERE o.ctid = f.at
    RETURNING o.namespace, o.queue, o.kind, o.key
  ),
  own_keys AS MATERIALIZED (SELECT * FROM added UNION ALL SELECT * FROM locked),
  examined AS MATERIALIZED (
    SELECT k.*, n.any_order, greatest(least(n.most - r.running, w.permits), 0) AS free, r.stuck,
      n.per_ms, s.window_start, s.window_used, w.*
    FROM own_keys k CROSS JOIN clock c
      CROSS JOIN LATERAL (
        SELECT t.concurrency_limit AS most, t.concurrency_any AS any_order, t.concurrency_rate AS rate,
          t.concurrency_rate_ms AS per_ms
        FROM leasehold.task t
        WHERE t.namespace = k.namespace AND t.queue = k.queue
          AND t.kind = k.kind AND t.concurrency_key = k.key AND t.state = 'pending'
        ORDER BY (t.seq + 0) DESC LIMIT 1
      ) n
      LEFT JOIN LATERAL (
        SELECT s.window_start, s.window_used FROM leasehold.key_rate s
        WHERE n.rate IS NOT NULL AND s.namespace = k.namespace AND s.queue = k.queue
          AND s.kind = k.kind AND s.key = k.key LIMIT 1
      ) s ON true
      CROSS JOIN LATERAL (
        SELECT v.current, s.window_start + n.per_ms * interval '1 millisecond' AS ends_at,
          CASE WHEN v.current THEN n.rate - s.window_used ELSE n.rate END AS permits
        FROM (SELECT coalesce(c.now >= s.window_start AND c.now < s.window_start + n.per_ms * interval '1 millisecond', false) AS current) v
      ) w
      CROSS JOIN LATERAL (
        SELECT count(*) - (
            -- Locked, because a renewal that this statement does not see may have extended it.
            SELECT count(*) FROM (
              SELECT FROM leasehold.task t
              WHERE t.namespace = k.namespace AND t.queue = k.queue
          AND t.kind = k.kind AND t.concurrency_key = k.key AND t.state || '' = 'running' AND c.now >= t.expires_at
              FOR NO KEY UPDATE OF t SKIP LOCKED
            ) e
          ) AS running,
          -- Expired, and not reaped yet: it keeps back those behind it.
          min(t.seq) FILTER (WHERE c.now >= t.expires_at) AS stuck
        FROM leasehold.task t WHERE t.namespace = k.namespace AND t.queue = k.queue
          AND t.kind = k.kind AND t.concurrency_key = k.key AND t.state || '' = 'running'
      ) r
  ),
  -- Of a key in order, none comes before one ahead of it: they have the largest priority and time so far.
  heads AS MATERIALIZED (
    SELECT k.namespace, k.queue, k.kind, k.key, k.any_order, h.*,
      row_number() OVER (PARTITION BY k.queue, k.kind, k.key ORDER BY h.seq) AS place
    FROM examined k CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT f.priority, f.scheduled_at, f.seq, f.version, f.bytes FROM (
        SELECT t.seq, t.version, t.bytes, max(t.priority) OVER upto AS priority,
          max(t.scheduled_at) OVER upto AS scheduled_at, bool_and(t.scheduled_at <= c.now) OVER upto AS due
        FROM (
          SELECT t.seq, t.priority, t.scheduled_at, t.version, octet_length(t.data) + coalesce(octet_length(t.checkpoint), 0) AS bytes FROM leasehold.task t
          WHERE NOT k.any_order AND t.namespace = k.namespace AND t.queue = k.queue
          AND t.kind = k.kind AND t.concurrency_key = k.key AND t.state = 'pending'
            AND (t.scheduled_at <= c.now OR t.attempt > 0) AND (t.start_by IS NULL OR t.start_by > (SELECT now FROM clock) OR t.attempt > 0) AND (k.stuck IS NULL OR t.seq < k.stuck)
          ORDER BY (t.seq + 0) LIMIT k.free
        ) t WINDOW upto AS (ORDER BY t.seq ROWS UNBOUNDED PRECEDING)
      ) f WHERE f.due
      UNION ALL (
        SELECT t.priority, t.scheduled_at, t.seq, t.version, octet_length(t.data) + coalesce(octet_length(t.checkpoint), 0) AS bytes FROM leasehold.task t
        WHERE k.any_order AND t.namespace = k.namespace AND t.queue = k.queue
          AND t.kind = k.kind AND t.concurrency_key = k.key AND t.state = 'pending' AND t.scheduled_at <= c.now AND (t.start_by IS NULL OR t.start_by > (SELECT now FROM clock) OR t.attempt > 0)
        ORDER BY t.priority, t.scheduled_at, t.seq LIMIT k.free
      )
    ) h
  ),
  plain AS MATERIALIZED (
    SELECT t.namespace, t.queue, t.priority, t.scheduled_at, t.seq, octet_length(t.data) + coalesce(octet_length(t.checkpoint), 0) AS bytes FROM leasehold.task t
    WHERE t.queue = $8 AND t.namespace = $1 AND t.state = 'pending' AND t.concurrency_key IS NULL
        AND t.scheduled_at <= (SELECT now FROM clock) AND (t.start_by IS NULL OR t.start_by > (SELECT now FROM clock) OR t.attempt > 0)
        AND ($6::text[] IS NULL OR t.kind = ANY ($6::text[])) AND (t.version = 1 OR $6::text[] IS NULL
          OR t.kind || E'\x01' || t.version = ANY ($6::text[]))
        AND NOT EXISTS (SELECT FROM earlier)
    ORDER BY t.priority, t.scheduled_at, t.seq LIMIT $5::int
    FOR NO KEY UPDATE OF t SKIP LOCKED
  ),
  picked AS MATERIALIZED (
    SELECT b.namespace, b.queue, b.priority, b.scheduled_at, b.seq, b.bytes FROM (
      SELECT b.*, row_number() OVER (PARTITION BY b.queue, b.kind, b.key ORDER BY b.seq) AS nth FROM (
        SELECT p.namespace, p.queue, p.priority, p.scheduled_at, p.seq, p.bytes, NULL AS kind, NULL AS key,
          true AS any_order, 0 AS place
        FROM plain p
        UNION ALL
        SELECT h.namespace, h.queue, h.priority, h.scheduled_at, h.seq, h.bytes, h.kind, h.key,
          h.any_order, h.place
        FROM (SELECT h.* FROM heads h ORDER BY h.priority, h.scheduled_at, h.seq LIMIT $5::int) h CROSS JOIN LATERAL (
          SELECT FROM leasehold.task t
          WHERE t.namespace = h.namespace AND t.seq = h.seq AND t.state = 'pending'
            AND t.scheduled_at <= (SELECT now FROM clock) AND (t.version = 1 OR $6::text[] IS NULL
          OR t.kind || E'\x01' || t.version = ANY ($6::text[]))
          FOR NO KEY UPDATE OF t SKIP LOCKED
        ) t
      ) b
    ) b
    WHERE b.any_order OR b.nth = b.place
    ORDER BY 3, 4, 5 LIMIT $5::int
  ),
  -- The size of a value is in its header: no data is read here.
  measured AS MATERIALIZED (
    SELECT p.namespace, p.queue, p.seq, p.bytes = sum(p.bytes) OVER upto
      OR sum(p.bytes) OVER upto <= 16777216 AS fits
    FROM picked p WINDOW upto AS (ORDER BY p.priority, p.scheduled_at, p.seq ROWS UNBOUNDED PRECEDING)
  ),
  -- This statement has locked them, so a concurrent claim may have found nothing.
  notified AS MATERIALIZED (
    SELECT pg_notify('leasehold', json_build_array('task', q.namespace, q.queue)::text)
    FROM (SELECT DISTINCT x.namespace, x.queue FROM (
      SELECT m.namespace, m.queue FROM measured m WHERE NOT m.fits
      UNION ALL
      SELECT l.namespace, l.queue FROM looked l
      WHERE (SELECT count(*) FROM measured m WHERE m.fits) BETWEEN 1 AND $5::int - 1
    ) x) q
  ),
  claimed AS (
    UPDATE leasehold.task t SET state = 'running', attempt = t.attempt + 1,
      previous_holder = t.holder, holder = $3, lease_id = (SELECT d.public FROM digest d) || lpad(to_hex(t.seq & 4294967295), 8, '0')
        || (SELECT d.secret FROM digest d),
      token = greatest(t.token + 1, (extract(epoch FROM c.now) * 1000000)::bigint), ttl_ms = $4::int, started_at = c.now,
      heartbeat_at = NULL, expires_at = least(c.now + $4::int * interval '1 millisecond', c.now + (t.max_run_ms + $7::bigint) * interval '1 millisecond'), run_until = c.now + (t.max_run_ms + $7::bigint) * interval '1 millisecond', result = NULL, progress = NULL
    FROM clock c
    -- Not a join, for which the planner may scan the whole table.
    WHERE t.namespace = $1 AND t.seq = ANY (ARRAY(SELECT p.seq FROM measured p WHERE p.fits))
    RETURNING t.*
  ),
  noted AS (
    INSERT INTO leasehold.claim (namespace, claim_id, task_seqs, claimed_at)
    SELECT $1, $2, array_agg(x.seq), c.now FROM claimed x CROSS JOIN clock c GROUP BY c.now
  ),
  own AS (
    SELECT t.* FROM earlier CROSS JOIN unnest(earlier.task_seqs) AS e (seq)
      JOIN leasehold.task t ON t.namespace = $1 AND t.seq = e.seq CROSS JOIN clock c
    WHERE t.state = 'running' AND t.lease_id = (SELECT d.public FROM digest d) || lpad(to_hex(t.seq & 4294967295), 8, '0')
        || (SELECT d.secret FROM digest d)
      AND c.now < t.expires_at
  ),
  forgotten AS (
    DELETE FROM leasehold.due_key d WHERE d.ctid = ANY (ARRAY(
      SELECT l.at FROM looked l JOIN own_keys k ON l.namespace = k.namespace AND l.queue = k.queue
          AND l.kind = k.kind AND l.key = k.key
    ))
  ),
  again AS (
    INSERT INTO leasehold.due_key (namespace, queue, kind, key, priority, due_at, version)
    SELECT h.namespace, h.queue, h.kind, h.key, min(h.priority), min(h.scheduled_at),
      -- Claims that take none of them need not look again.
      CASE WHEN bool_and(h.any_order) THEN min(h.version) ELSE (array_agg(h.version ORDER BY h.seq))[1] END
    FROM heads h
    WHERE NOT EXISTS (SELECT FROM measured m WHERE m.fits AND m.seq = h.seq)
    GROUP BY h.namespace, h.queue, h.kind, h.key
  ),
  -- Of the keys with a rate, how many of their tasks the claim starts.
  paced AS MATERIALIZED (
    SELECT k.*, (
      SELECT count(*)::int FROM heads h JOIN measured m ON m.seq = h.seq
      WHERE m.fits AND h.namespace = k.namespace AND h.queue = k.queue
          AND h.kind = k.kind AND h.key = k.key
    ) AS started
    FROM examined k WHERE k.permits IS NOT NULL
  ),
  -- No other claim writes these rows: this one has locked their keys.
  counted AS (
    INSERT INTO leasehold.key_rate (namespace, queue, kind, key, window_start, window_used, ends_at)
    SELECT k.namespace, k.queue, k.kind, k.key, x.begin, x.used + k.started, x.begin + k.per_ms * interval '1 millisecond'
    FROM paced k CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT CASE WHEN k.current THEN k.window_start ELSE c.now END AS begin,
        CASE WHEN k.current THEN k.window_used ELSE 0 END AS used
    ) x
    WHERE k.started > 0
    ON CONFLICT (namespace, queue, kind, key) DO UPDATE
      SET window_start = excluded.window_start, window_used = excluded.window_used, ends_at = excluded.ends_at
  ),
  -- A key whose rate is used up is due when the window ends.
  resumed AS (
    INSERT INTO leasehold.due_key (namespace, queue, kind, key, priority, due_at)
    SELECT k.namespace, k.queue, k.kind, k.key, (
        SELECT min(l.priority) FROM looked l WHERE l.namespace = k.namespace AND l.queue = k.queue
          AND l.kind = k.kind AND l.key = k.key
      ), CASE WHEN k.current THEN k.ends_at ELSE c.now + k.per_ms * interval '1 millisecond' END
    FROM paced k CROSS JOIN clock c WHERE k.started >= k.permits
  )
SELECT x.id, x.kind, x.queue,
  x.priority, x.data, x.lease_id AS "leaseId", x.token, x.attempt,
  x.failures, x.crashes, x.max_attempts AS "maxAttempts",
  x.dedupe_key AS "dedupeKey", x.holder, (extract(epoch FROM x.scheduled_at) * 1000000)::bigint AS "scheduledAt",
  x.version, x.previous_holder AS "previousHolder", x.checkpoint, x.max_run_ms AS "maxRunMs",
  x.postponed, x.ttl_ms AS "ttlMs",
  (extract(epoch FROM x.expires_at) * 1000000)::bigint AS "expiresAt", (extract(epoch FROM c.now) * 1000000)::bigint AS now, (SELECT count(*) FROM notified)::int AS notified,
  x.id IS NULL AND EXISTS (SELECT FROM looked) AS undecided,
  false AS limited, (extract(epoch FROM (SELECT min(k.ends_at) FROM paced k WHERE k.current AND k.permits <= 0) - c.now) * 1000)::float8 AS "retryInMs"
FROM clock c LEFT JOIN (SELECT * FROM claimed UNION ALL SELECT * FROM own) x ON true
ORDER BY x.priority, x.scheduled_at, x.seq
