-- Reads an API key with its digest.
-- $1 id

SELECT k.id, k.namespace, k.name, k.role, k.prefixes, k.queues, k.revoked,
  to_char(k.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "createdAt", to_char(k.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "expiresAt",
  to_char(k.last_used_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "lastUsedAt",
  greatest(0, ceil(date_part('epoch', k.expires_at - clock_timestamp()) * 1000)) AS left_ms, k.digest FROM leasehold.api_key k WHERE k.id = $1
