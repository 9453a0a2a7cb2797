-- Claims the first due tasks of one queue. Takes nothing if the claim is repeated, its data is too
-- much, tasks with a concurrency key are due, or a limit concerns it: task-claim decides then.
-- $1 namespace
-- $2 claimId
-- $3 holder
-- $4 ttlMs
-- $5 limit
-- $6 kinds
-- $7 graceMs
-- $8 queue

WITH clock AS MATERIALIZED (
    SELECT n.now, (extract(epoch FROM n.now) * 1000000)::bigint AS micros FROM (SELECT clock_timestamp() AS now) n
  ),
  digest AS MATERIALIZED (
    SELECT left(d.hex, 8) AS public, substr(d.hex, 17, 32) AS secret
    FROM (SELECT encode(sha256(convert_to($2, 'UTF8')), 'hex') AS hex) d
  ),
  earlier AS MATERIALIZED (
    SELECT FROM leasehold.claim n WHERE n.namespace = $1 AND n.claim_id = $2
  ),
  keyed AS MATERIALIZED (
    SELECT FROM leasehold.due_key d
    WHERE d.namespace = $1 AND d.queue = ANY (ARRAY[$8::text]) AND d.due_at <= (SELECT now FROM clock)
    LIMIT 1
  ),
  limited AS MATERIALIZED (
    SELECT FROM leasehold.task_limit l
    WHERE l.namespace = $1 AND CASE l.scope
        WHEN 'kind' THEN $6::text[] IS NULL OR l.name = ANY ($6::text[])
        ELSE l.name = ANY (ARRAY[$8::text]) END
    LIMIT 1
  ),
  picked AS MATERIALIZED (
    SELECT t.seq, octet_length(t.data) + coalesce(octet_length(t.checkpoint), 0) AS bytes FROM leasehold.task t
    WHERE t.queue = $8 AND t.namespace = $1 AND t.state = 'pending' AND t.concurrency_key IS NULL
        AND t.scheduled_at <= (SELECT now FROM clock) AND (t.start_by IS NULL OR t.start_by > (SELECT now FROM clock) OR t.attempt > 0)
        AND ($6::text[] IS NULL OR t.kind = ANY ($6::text[])) AND (t.version = 1 OR $6::text[] IS NULL
          OR t.kind || E'\x01' || t.version = ANY ($6::text[]))
        AND NOT EXISTS (SELECT FROM earlier) AND NOT EXISTS (SELECT FROM keyed) AND NOT EXISTS (SELECT FROM limited)
    ORDER BY t.priority, t.scheduled_at, t.seq LIMIT $5::int
    FOR NO KEY UPDATE OF t SKIP LOCKED
  ),
  claimed AS (
    UPDATE leasehold.task t SET state = 'running', attempt = t.attempt + 1,
      previous_holder = t.holder, holder = $3, lease_id = (SELECT d.public FROM digest d) || lpad(to_hex(t.seq & 4294967295), 8, '0')
        || (SELECT d.secret FROM digest d),
      token = greatest(t.token + 1, c.micros), ttl_ms = $4::int, started_at = c.now,
      heartbeat_at = NULL, expires_at = least(c.now + $4::int * interval '1 millisecond', c.now + (t.max_run_ms + $7::bigint) * interval '1 millisecond'), run_until = c.now + (t.max_run_ms + $7::bigint) * interval '1 millisecond', result = NULL, progress = NULL
    FROM clock c
    WHERE t.namespace = $1 AND t.seq = ANY (ARRAY(
      SELECT p.seq FROM picked p WHERE (SELECT sum(b.bytes) FROM picked b) <= 16777216
    ))
    RETURNING t.id, t.seq, t.kind, t.priority, t.data, t.lease_id, t.token, t.attempt, t.failures,
      t.crashes, t.max_attempts, t.dedupe_key, t.scheduled_at, t.version, t.previous_holder, t.checkpoint,
      t.max_run_ms, t.postponed
  ),
  noted AS (
    INSERT INTO leasehold.claim (namespace, claim_id, task_seqs, claimed_at)
    SELECT $1, $2, array_agg(x.seq), c.now FROM claimed x CROSS JOIN clock c GROUP BY c.now
  )
SELECT x.id, x.kind, nullif(x.priority, 0) AS priority, x.data, x.lease_id AS "leaseId",
  x.token, nullif(x.attempt, 1) AS attempt, nullif(x.failures, 0) AS failures, nullif(x.crashes, 0) AS crashes,
  x.max_attempts AS "maxAttempts", x.dedupe_key AS "dedupeKey",
  (date_part('epoch', x.scheduled_at) * 1000000)::bigint AS "scheduledAt",
  nullif(x.version, 1) AS version, x.previous_holder AS "previousHolder", x.checkpoint, x.max_run_ms AS "maxRunMs",
  nullif(x.postponed, 0) AS postponed, nullif(c.micros, x.token) AS now,
  CASE WHEN x.id IS NULL THEN EXISTS (SELECT FROM earlier) OR EXISTS (SELECT FROM picked)
    OR EXISTS (SELECT FROM keyed) OR EXISTS (SELECT FROM limited) END AS undecided,
  CASE WHEN x.id IS NULL THEN EXISTS (SELECT FROM limited) END AS limited
FROM clock c LEFT JOIN claimed x ON true
ORDER BY x.priority, x.scheduled_at, x.seq
