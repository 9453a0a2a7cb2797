-- Deletes leases that ended long ago, and keeps their largest token as the namespace's floor.
-- $1 olderThanMs
-- $2 afterNamespace
-- $3 afterResource
-- $4 limit

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  ),
  old AS MATERIALIZED (
    SELECT l.namespace, l.resource, l.token FROM leasehold.lease l CROSS JOIN clock c
    WHERE (l.namespace, l.resource) > ($2, $3)
      AND NOT (l.ended IS DISTINCT FROM 'released' AND l.expires_at > c.now) AND NOT l.paused AND l.expires_at <= c.now + -($1::float8) * interval '1 millisecond'
    ORDER BY l.namespace, l.resource
    LIMIT $4::int
    FOR UPDATE OF l SKIP LOCKED
  ),
  raised AS (
    INSERT INTO leasehold.token_floor AS f (namespace, token)
    SELECT o.namespace, max(o.token) FROM old o GROUP BY o.namespace ORDER BY o.namespace
    ON CONFLICT (namespace) DO UPDATE SET token = greatest(f.token, excluded.token)
    RETURNING 1
  ),
  deleted AS (
    DELETE FROM leasehold.lease l USING old o
    WHERE l.namespace = o.namespace AND l.resource = o.resource AND (SELECT count(*) FROM raised) >= 0
    RETURNING l.namespace, l.resource
  )
SELECT namespace, resource FROM deleted ORDER BY namespace, resource
