-- Ends an API key, at once or after a while.
-- $1 namespace
-- $2 id
-- $3 inMs

UPDATE leasehold.api_key k
SET expires_at = least(k.expires_at, clock_timestamp() + $3::float8 * interval '1 millisecond'),
  revoked = k.revoked OR ($3::float8 = 0 AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp()))
WHERE k.namespace = $1 AND k.id = $2
RETURNING k.id, k.namespace, k.name, k.role, k.prefixes, k.queues, k.revoked,
  to_char(k.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "createdAt", to_char(k.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "expiresAt",
  to_char(k.last_used_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "lastUsedAt",
  greatest(0, ceil(date_part('epoch', k.expires_at - clock_timestamp()) * 1000)) AS left_ms
