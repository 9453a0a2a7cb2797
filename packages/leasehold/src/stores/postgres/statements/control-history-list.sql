-- Reads a page of ended grants, the newest first.
-- $1 namespace
-- $2 limit

SELECT h.namespace, h.resource, h.holder, h.grant_id AS "grantId", h.token, h.state,
  h.ttl_ms AS "ttlMs", to_char(h.granted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "grantedAt", to_char(h.renewed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "renewedAt",
  to_char(h.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "expiresAt", h.metadata, h.id FROM leasehold.grant_history h WHERE h.namespace = $1
ORDER BY h.token DESC, h.id DESC LIMIT $2::int
