-- Like control-keys-list, for one namespace and after a cursor.
-- $1 limit
-- $2 namespace
-- $3 cursorMicros
-- $4 cursorId

SELECT k.id, k.namespace, k.name, k.role, k.prefixes, k.queues, k.revoked,
  to_char(k.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "createdAt", to_char(k.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "expiresAt",
  to_char(k.last_used_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "lastUsedAt",
  greatest(0, ceil(date_part('epoch', k.expires_at - clock_timestamp()) * 1000)) AS left_ms, round(date_part('epoch', k.created_at) * 1000000)::bigint AS micros
FROM leasehold.api_key k WHERE true AND k.namespace = $2 AND (k.created_at, k.id) < (timestamptz 'epoch' + $3::bigint * interval '1 microsecond', $4)
ORDER BY k.created_at DESC, k.id DESC LIMIT $1::int
