-- Like control-history-list, with every filter: each adds its condition.
-- $1 namespace
-- $2 resource
-- $3 states
-- $4 cursorToken
-- $5 cursorId
-- $6 limit

SELECT h.namespace, h.resource, h.holder, h.grant_id AS "grantId", h.token, h.state,
  h.ttl_ms AS "ttlMs", to_char(h.granted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "grantedAt", to_char(h.renewed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "renewedAt",
  to_char(h.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "expiresAt", h.metadata, h.id FROM leasehold.grant_history h WHERE h.namespace = $1 AND h.resource = $2 AND h.state = ANY ($3::text[]) AND (h.token, h.id) < ($4::bigint, $5::bigint)
ORDER BY h.token DESC, h.id DESC LIMIT $6::int
