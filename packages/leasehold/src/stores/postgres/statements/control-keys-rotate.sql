-- Locks an API key that has not ended, to replace it.
-- $1 namespace
-- $2 id

SELECT k.id, k.namespace, k.name, k.role, k.prefixes, k.queues, k.revoked,
  to_char(k.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "createdAt", to_char(k.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "expiresAt",
  to_char(k.last_used_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "lastUsedAt",
  greatest(0, ceil(date_part('epoch', k.expires_at - clock_timestamp()) * 1000)) AS left_ms, (k.expires_at IS NULL OR k.expires_at > clock_timestamp()) AS good, date_part('epoch', k.expires_at - k.created_at) * 1000 AS lifetime_ms,
  (SELECT max(a.details::json ->> 'successor') FROM leasehold.audit a
   WHERE a.namespace = k.namespace AND a.target = k.id AND a.action = 'key.rotate') AS successor
FROM leasehold.api_key k
WHERE k.namespace = $1 AND k.id = $2 FOR UPDATE
