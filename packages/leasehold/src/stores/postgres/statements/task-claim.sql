-- Claims the first due tasks of one queue. A repeated claim returns those of its tasks that it
-- still holds.
-- $1 namespace
-- $2 claimId
-- $3 holder
-- $4 ttlMs
-- $5 limit
-- $6 kinds
-- $7 queue

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  digest AS MATERIALIZED (
    SELECT left(d.hex, 8) AS public, substr(d.hex, 17, 32) AS secret
    FROM (SELECT encode(sha256(convert_to($2, 'UTF8')), 'hex') AS hex) d
  ),
  earlier AS MATERIALIZED (
    SELECT n.task_seqs FROM leasehold.claim n WHERE n.namespace = $1 AND n.claim_id = $2
  ),
  picked AS MATERIALIZED (
    SELECT t.namespace, t.queue, t.priority, t.scheduled_at, t.seq, octet_length(t.data) + coalesce(octet_length(t.checkpoint), 0) AS bytes FROM leasehold.task t
    WHERE t.queue = $7 AND t.namespace = $1 AND t.state = 'pending' AND t.concurrency_key IS NULL
        AND t.scheduled_at <= (SELECT now FROM clock)
        AND ($6::text[] IS NULL OR t.kind = ANY ($6::text[]))
        AND NOT EXISTS (SELECT FROM earlier)
    ORDER BY t.priority, t.scheduled_at, t.seq LIMIT $5::int
    FOR NO KEY UPDATE OF t SKIP LOCKED
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
    FROM (SELECT DISTINCT x.namespace, x.queue FROM measured x WHERE NOT x.fits) q
  ),
  claimed AS (
    UPDATE leasehold.task t SET state = 'running', attempt = t.attempt + 1,
      previous_holder = t.holder, holder = $3, lease_id = (SELECT d.public FROM digest d) || lpad(to_hex(t.seq & 4294967295), 8, '0')
        || (SELECT d.secret FROM digest d),
      token = greatest(t.token + 1, (extract(epoch FROM c.now) * 1000000)::bigint), ttl_ms = $4::int, started_at = c.now,
      heartbeat_at = NULL, expires_at = c.now + $4::int * interval '1 millisecond', result = NULL, progress = NULL
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
  )
SELECT x.id, x.kind, x.queue,
  x.priority, x.data, x.lease_id AS "leaseId", x.token, x.attempt,
  x.failures, x.crashes, x.max_attempts AS "maxAttempts",
  x.dedupe_key AS "dedupeKey", x.holder, (extract(epoch FROM x.scheduled_at) * 1000000)::bigint AS "scheduledAt",
  x.previous_holder AS "previousHolder", x.checkpoint, x.ttl_ms AS "ttlMs",
  (extract(epoch FROM x.expires_at) * 1000000)::bigint AS "expiresAt", (extract(epoch FROM c.now) * 1000000)::bigint AS now, (SELECT count(*) FROM notified)::int AS notified
FROM (SELECT * FROM claimed UNION ALL SELECT * FROM own) x CROSS JOIN clock c
ORDER BY x.priority, x.scheduled_at, x.seq
