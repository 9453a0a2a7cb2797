-- Like task-leases, for live grants only.
-- $1 namespace
-- $2 limit

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  found (id, seq, attempt, holder, grant_id, token, ttl_ms, started_at, heartbeat_at, ended_at,
    expires_at, result) AS ((SELECT t.id, t.seq, t.attempt, t.holder, left(t.lease_id, 16) AS grant_id, t.token, t.ttl_ms,
    t.started_at, t.heartbeat_at, NULL::timestamptz AS ended_at, t.expires_at, NULL::text AS result FROM leasehold.task t
    WHERE t.namespace = $1 AND t.state = 'running' AND t.expires_at > (SELECT now FROM clock) ORDER BY t.seq DESC LIMIT $2::int))
SELECT x.id, x.seq, x.attempt, x.holder, x.grant_id AS "grantId", x.token, x.ttl_ms AS "ttlMs",
  (extract(epoch FROM x.started_at) * 1000000)::bigint AS "startedAt", (extract(epoch FROM x.heartbeat_at) * 1000000)::bigint AS "heartbeatAt",
  (extract(epoch FROM x.ended_at) * 1000000)::bigint AS "endedAt", (extract(epoch FROM x.expires_at) * 1000000)::bigint AS "expiresAt", x.result,
  (extract(epoch FROM c.now) * 1000000)::bigint AS now
FROM found x CROSS JOIN clock c ORDER BY x.seq DESC, x.attempt DESC LIMIT $2::int
