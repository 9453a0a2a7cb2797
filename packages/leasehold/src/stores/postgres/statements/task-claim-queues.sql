-- Claims the first due tasks of several queues, here two, unless tasks with a concurrency key are
-- due, or a limit concerns it.
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
  keyed AS MATERIALIZED (
    SELECT FROM leasehold.due_key d
    WHERE d.namespace = $1 AND d.queue = ANY (ARRAY[$8::text, $9::text]) AND d.due_at <= (SELECT now FROM clock)
    LIMIT 1
  ),
  limited AS MATERIALIZED (
    SELECT FROM leasehold.task_limit l
    WHERE l.namespace = $1 AND CASE l.scope
        WHEN 'kind' THEN $6::text[] IS NULL OR l.name = ANY ($6::text[])
        ELSE l.name = ANY (ARRAY[$8::text, $9::text]) END
    LIMIT 1
  ),
  picked AS MATERIALIZED (
    SELECT q.namespace, q.queue, q.priority, q.scheduled_at, q.seq, t.bytes FROM (
      (SELECT t.namespace, t.queue, t.seq, t.priority, t.scheduled_at FROM leasehold.task t
        WHERE t.queue = $8 AND t.namespace = $1 AND t.state = 'pending' AND t.concurrency_key IS NULL
        AND t.scheduled_at <= (SELECT now FROM clock) AND (t.start_by IS NULL OR t.start_by > (SELECT now FROM clock) OR t.attempt > 0)
        AND ($6::text[] IS NULL OR t.kind = ANY ($6::text[])) AND (t.version = 1 OR $6::text[] IS NULL
          OR t.kind || E'\x01' || t.version = ANY ($6::text[]))
        AND NOT EXISTS (SELECT FROM earlier) AND NOT EXISTS (SELECT FROM keyed) AND NOT EXISTS (SELECT FROM limited)
        ORDER BY t.priority, t.scheduled_at, t.seq LIMIT 10 * $5::int + 100)
      UNION ALL
      (SELECT t.namespace, t.queue, t.seq, t.priority, t.scheduled_at FROM leasehold.task t
        WHERE t.queue = $9 AND t.namespace = $1 AND t.state = 'pending' AND t.concurrency_key IS NULL
        AND t.scheduled_at <= (SELECT now FROM clock) AND (t.start_by IS NULL OR t.start_by > (SELECT now FROM clock) OR t.attempt > 0)
        AND ($6::text[] IS NULL OR t.kind = ANY ($6::text[])) AND (t.version = 1 OR $6::text[] IS NULL
          OR t.kind || E'\x01' || t.version = ANY ($6::text[]))
        AND NOT EXISTS (SELECT FROM earlier) AND NOT EXISTS (SELECT FROM keyed) AND NOT EXISTS (SELECT FROM limited)
        ORDER BY t.priority, t.scheduled_at, t.seq LIMIT 10 * $5::int + 100)
      ORDER BY 4, 5, 3
    ) q CROSS JOIN LATERAL (
      SELECT octet_length(t.data) + coalesce(octet_length(t.checkpoint), 0) AS bytes FROM leasehold.task t
      WHERE t.namespace = q.namespace AND t.seq = q.seq AND t.state = 'pending'
        AND t.scheduled_at <= (SELECT now FROM clock)
      FOR NO KEY UPDATE OF t SKIP LOCKED
    ) t
    ORDER BY q.priority, q.scheduled_at, q.seq LIMIT $5::int
-- lines 146 to 155 of task-claim.sql
    FROM (SELECT DISTINCT x.namespace, x.queue FROM measured x WHERE NOT x.fits) q
-- lines 162 to 183 of task-claim.sql
-- lines 229 to 236 of task-claim.sql
  x.id IS NULL AND (EXISTS (SELECT FROM keyed) OR EXISTS (SELECT FROM limited)) AS undecided,
  EXISTS (SELECT FROM limited) AS limited, NULL::float8 AS "retryInMs"
FROM clock c LEFT JOIN (SELECT * FROM claimed UNION ALL SELECT * FROM own) x ON true
ORDER BY x.priority, x.scheduled_at, x.seq
