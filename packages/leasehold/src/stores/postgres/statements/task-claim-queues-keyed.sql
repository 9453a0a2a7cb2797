-- Like task-claim, for several queues, here two.
-- $1 namespace
-- $2 claimId
-- $3 holder
-- $4 ttlMs
-- $5 limit
-- $6 kinds
-- $7 queue1
-- $8 queue2

-- lines 11 to 19 of task-claim.sql
    SELECT d.* FROM unnest(ARRAY[$7::text, $8::text]) AS q (queue) CROSS JOIN LATERAL (
-- lines 21 to 102 of task-claim.sql
    SELECT q.namespace, q.queue, q.priority, q.scheduled_at, q.seq, t.bytes FROM (
      (SELECT t.namespace, t.queue, t.seq, t.priority, t.scheduled_at FROM leasehold.task t
        WHERE t.queue = $7 AND t.namespace = $1 AND t.state = 'pending' AND t.concurrency_key IS NULL
        AND t.scheduled_at <= (SELECT now FROM clock)
        AND ($6::text[] IS NULL OR t.kind = ANY ($6::text[])) AND (t.version = 1 OR $6::text[] IS NULL
          OR t.kind || E'\x01' || t.version = ANY ($6::text[]))
        AND NOT EXISTS (SELECT FROM earlier)
        ORDER BY t.priority, t.scheduled_at, t.seq LIMIT 10 * $5::int + 100)
      UNION ALL
      (SELECT t.namespace, t.queue, t.seq, t.priority, t.scheduled_at FROM leasehold.task t
        WHERE t.queue = $8 AND t.namespace = $1 AND t.state = 'pending' AND t.concurrency_key IS NULL
        AND t.scheduled_at <= (SELECT now FROM clock)
        AND ($6::text[] IS NULL OR t.kind = ANY ($6::text[])) AND (t.version = 1 OR $6::text[] IS NULL
          OR t.kind || E'\x01' || t.version = ANY ($6::text[]))
        AND NOT EXISTS (SELECT FROM earlier)
        ORDER BY t.priority, t.scheduled_at, t.seq LIMIT 10 * $5::int + 100)
      ORDER BY 4, 5, 3
    ) q CROSS JOIN LATERAL (
      SELECT octet_length(t.data) + coalesce(octet_length(t.checkpoint), 0) AS bytes FROM leasehold.task t
      WHERE t.namespace = q.namespace AND t.seq = q.seq AND t.state = 'pending'
        AND t.scheduled_at <= (SELECT now FROM clock)
      FOR NO KEY UPDATE OF t SKIP LOCKED
    ) t
    ORDER BY q.priority, q.scheduled_at, q.seq LIMIT $5::int
-- lines 111 to 194 of task-claim.sql
