-- Adds ended grants to the history, each once.
-- $1 namespaces
-- $2 resources
-- $3 grantIds
-- $4 holders
-- $5 tokens
-- $6 states
-- $7 ttlMs
-- $8 grantedAt
-- $9 renewedAt
-- $10 expiresAt
-- $11 metadata

INSERT INTO leasehold.grant_history (namespace, resource, grant_id, holder, token, state, ttl_ms,
  granted_at, renewed_at, expires_at, metadata, recorded_at)
SELECT i.namespace, i.resource, i.grant_id, i.holder, i.token, i.state, i.ttl_ms,
  i.granted_at::timestamptz, i.renewed_at::timestamptz, i.expires_at::timestamptz, i.metadata,
  clock_timestamp()
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::float8[], $6::text[],
  $7::float8[], $8::text[], $9::text[], $10::text[], $11::text[])
  AS i (namespace, resource, grant_id, holder, token, state, ttl_ms, granted_at, renewed_at,
    expires_at, metadata)
ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C", i.grant_id COLLATE "C"
ON CONFLICT (namespace, resource, grant_id) DO NOTHING
