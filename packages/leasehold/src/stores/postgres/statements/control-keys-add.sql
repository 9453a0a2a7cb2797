-- Adds an API key unless the namespace has too many that have not ended.
-- $1 id
-- $2 namespace
-- $3 name
-- $4 role
-- $5 prefixes
-- $6 digest
-- $7 lifetimeMs
-- $8 most
-- $9 queues

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
INSERT INTO leasehold.api_key AS k
  (id, namespace, name, role, prefixes, digest, created_at, expires_at, queues)
SELECT $1, $2, $3, $4, $5, $6, c.now, c.now + $7::float8 * interval '1 millisecond', $9 FROM clock c
WHERE $8::int > (SELECT count(*) FROM leasehold.api_key o WHERE o.namespace = $2 AND (o.expires_at IS NULL OR o.expires_at > clock_timestamp()))
RETURNING k.id, k.namespace, k.name, k.role, k.prefixes, k.queues, k.revoked,
  to_char(k.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "createdAt", to_char(k.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "expiresAt",
  to_char(k.last_used_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "lastUsedAt",
  greatest(0, ceil(date_part('epoch', k.expires_at - clock_timestamp()) * 1000)) AS left_ms
