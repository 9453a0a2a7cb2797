-- Renews each grant on a task that is live, and keeps its progress.
-- $1 namespaces
-- $2 ids
-- $3 leaseIds
-- $4 tokens
-- $5 ttlMs
-- $6 progress
-- $7 checkpoints

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  input AS MATERIALIZED (SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::bigint[]), (SELECT $5::int[]), (SELECT $6::text[]), (SELECT $7::text[]))
      WITH ORDINALITY AS i (namespace, id, lease_id, token, ttl_ms, progress, checkpoint, n)),
  held AS MATERIALIZED (
    SELECT i.*, t.* FROM (SELECT * FROM input ORDER BY namespace COLLATE "C", id COLLATE "C") i
      CROSS JOIN clock c CROSS JOIN LATERAL (
        SELECT t.ctid AS at FROM leasehold.task t
        WHERE t.namespace = i.namespace AND t.id = i.id AND (t.state = 'running' AND t.lease_id = i.lease_id AND t.token = i.token AND c.now < t.expires_at)
        FOR NO KEY UPDATE OF t SKIP LOCKED
      ) t
  )
UPDATE leasehold.task t SET ttl_ms = h.ttl_ms, heartbeat_at = c.now,
  -- Never shortens a grant: its holder may already trust an older response.
  expires_at = least(t.run_until, greatest(t.expires_at, c.now + h.ttl_ms * interval '1 millisecond')),
  progress = coalesce(h.progress, t.progress), checkpoint = coalesce(h.checkpoint, t.checkpoint)
FROM held h CROSS JOIN clock c
WHERE t.ctid = h.at
RETURNING h.n::int AS n, (extract(epoch FROM t.expires_at) * 1000000)::bigint AS "expiresAt", (extract(epoch FROM c.now) * 1000000)::bigint AS now
