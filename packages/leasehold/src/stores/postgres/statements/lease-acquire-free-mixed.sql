-- Like lease-acquire-free, for requests of any holders, and for those of a server: it can also
-- list the grants that were replaced.
-- $1 namespaces
-- $2 resources
-- $3 leaseIds
-- $4 holders
-- $5 ttlMs
-- $6 metadata
-- $7 returnReplaced

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  ),
  seen AS MATERIALIZED (
    SELECT i.*, greatest(c.token, (
        SELECT f.token + 1 FROM leasehold.token_floor f WHERE f.namespace = i.namespace
      )) AS new_token, s.*
    FROM (
      SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::text[]), (SELECT $5::int[]), (SELECT $6::text[]))
      WITH ORDINALITY AS i (namespace, resource, asked_id, asked_by, asked_ms, asked_metadata, n)
      ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C"
    ) i CROSS JOIN clock c LEFT JOIN LATERAL (
      SELECT l.ctid AS at, l.lease_id <> i.asked_id AND NOT (l.ended IS DISTINCT FROM 'released' AND l.expires_at > c.now) AND NOT l.paused AND NOT ((SELECT EXISTS (SELECT FROM leasehold.waiter)) AND EXISTS (
        SELECT FROM leasehold.waiter w
        WHERE w.namespace = l.namespace AND w.resource = l.resource AND w.expires_at > c.now
      )) AS is_free
      FROM leasehold.lease l WHERE l.namespace = i.namespace AND l.resource = i.resource OFFSET 0
    ) s ON true
  ),
  locked AS MATERIALIZED (
    SELECT s.n, s.asked_id, s.new_token AS least_token, s.asked_by, s.asked_ms, s.asked_metadata, s.at, k.*
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.holder, l.lease_id, l.ttl_ms, coalesce(l.ended, 'expired') AS state, l.granted_at, l.renewed_at,
        l.expires_at, l.metadata, l.token FROM leasehold.lease l
-- lines 34 to 40 of lease-acquire-free.sql
      lease_id = k.asked_id, holder = k.asked_by, metadata = k.asked_metadata, ttl_ms = k.asked_ms,
      token = greatest(k.token + 1, k.least_token),
      granted_at = c.now, renewed_at = NULL, expires_at = c.now + k.asked_ms * interval '1 millisecond', ended = NULL
-- lines 44 to 50 of lease-acquire-free.sql
    SELECT s.namespace, s.resource, s.asked_id, s.asked_by, s.asked_metadata, s.asked_ms,
      s.new_token, c.now, c.now + s.asked_ms * interval '1 millisecond'
-- lines 53 to 66 of lease-acquire-free.sql
  CASE WHEN t.is_all THEN (SELECT string_agg(CASE WHEN s.new_token = c.token THEN s.n::text ELSE s.n || ':' || s.new_token END, ',') FROM seen s WHERE s.at IS NULL) END AS created,
  CASE WHEN NOT t.is_all THEN
    (SELECT json_agg(json_build_array(x.namespace, x.resource, x.token))::text FROM created x)
  END AS names,
  CASE WHEN $7::bool THEN (
    SELECT json_agg(json_build_array(g.n, g.holder, left(g.lease_id, 16), g.token, g.ttl_ms, g.state,
      date_part('epoch', g.granted_at) * 1000, date_part('epoch', g.renewed_at) * 1000, date_part('epoch', g.expires_at) * 1000, g.metadata))::text
    FROM granted g
  ) END AS replaced
FROM clock c CROSS JOIN counted t
