-- Grants each lease of a batch that is free, not paused and without waiters. Its one row lists
-- their numbers: lease-acquire decides the others.
-- $1 namespace
-- $2 holder
-- $3 ttlMs
-- $4 metadata
-- $5 resources
-- $6 leaseIds

WITH clock AS MATERIALIZED (
    SELECT t.now, greatest((extract(epoch FROM t.now) * 1000000)::bigint, (
      SELECT f.token + 1 FROM leasehold.token_floor f WHERE f.namespace = $1::text
    )) AS token
    FROM (SELECT clock_timestamp() AS now) t
  ),
  seen AS MATERIALIZED (
    SELECT i.*, s.*
    FROM (
      SELECT * FROM unnest((SELECT $5::text[]), (SELECT $6::text[]))
        WITH ORDINALITY AS i (resource, asked_id, n)
      ORDER BY i.resource COLLATE "C"
    ) i CROSS JOIN clock c LEFT JOIN LATERAL (
      SELECT l.ctid AS at, l.lease_id <> i.asked_id AND NOT (l.ended IS DISTINCT FROM 'released' AND l.expires_at > c.now) AND NOT l.paused AND NOT ((SELECT EXISTS (SELECT FROM leasehold.waiter)) AND EXISTS (
        SELECT FROM leasehold.waiter w
        WHERE w.namespace = $1::text AND w.resource = l.resource AND w.expires_at > c.now
      )) AS is_free
      FROM leasehold.lease l WHERE l.namespace = $1 AND l.resource = i.resource OFFSET 0
    ) s ON true
  ),
  locked AS MATERIALIZED (
    SELECT s.n, s.asked_id, s.at, k.*
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.token FROM leasehold.lease l
      WHERE l.ctid = s.at AND l.lease_id <> s.asked_id AND NOT (l.ended IS DISTINCT FROM 'released' AND l.expires_at > c.now) AND NOT l.paused
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
    WHERE s.is_free
  ),
  granted AS (
    UPDATE leasehold.lease l SET
      lease_id = k.asked_id, holder = $2::text, metadata = $4::text, ttl_ms = $3::int,
      token = greatest(k.token + 1, c.token),
      granted_at = c.now, renewed_at = NULL, expires_at = c.now + $3::int * interval '1 millisecond', ended = NULL
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at
    RETURNING k.*, l.token AS new_token
  ),
  created AS (
    INSERT INTO leasehold.lease AS l
      (namespace, resource, lease_id, holder, metadata, ttl_ms, token, granted_at, expires_at)
    SELECT $1::text, s.resource, s.asked_id, $2::text, $4::text, $3::int,
      c.token, c.now, c.now + $3::int * interval '1 millisecond'
    FROM seen s CROSS JOIN clock c
    WHERE s.at IS NULL AND (SELECT count(*) FROM granted) >= 0
    ON CONFLICT (namespace, resource) DO NOTHING
    RETURNING l.namespace, l.resource, l.token
  ),
  above AS MATERIALIZED (
    SELECT leasehold.above_floor(x.namespace, min(x.token)) FROM created x GROUP BY x.namespace
  ),
  counted AS MATERIALIZED (
    SELECT (SELECT count(*) FROM created) = (SELECT count(*) FROM seen s WHERE s.at IS NULL) AS is_all
    WHERE (SELECT count(*) FROM above) >= 0
  )
SELECT c.token, date_part('epoch', c.now) * 1000 AS now,
  (SELECT string_agg(CASE WHEN g.new_token = c.token THEN g.n::text ELSE g.n || ':' || g.new_token END, ',') FROM granted g) AS granted,
  CASE WHEN t.is_all THEN (SELECT string_agg(CASE WHEN c.token = c.token THEN s.n::text ELSE s.n || ':' || c.token END, ',') FROM seen s WHERE s.at IS NULL) END AS created,
  CASE WHEN NOT t.is_all THEN
    (SELECT json_agg(json_build_array(x.namespace, x.resource, x.token))::text FROM created x)
  END AS names
FROM clock c CROSS JOIN counted t
