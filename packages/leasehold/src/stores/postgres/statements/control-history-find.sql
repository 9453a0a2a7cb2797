-- Reads one ended grant.
-- $1 namespace
-- $2 resource
-- $3 grantId

SELECT h.namespace, h.resource, h.holder, h.grant_id AS "grantId", h.token, h.state,
  h.ttl_ms AS "ttlMs", to_char(h.granted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "grantedAt", to_char(h.renewed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "renewedAt",
  to_char(h.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "expiresAt", h.metadata FROM leasehold.grant_history h
WHERE h.namespace = $1 AND h.resource = $2 AND h.grant_id = $3
