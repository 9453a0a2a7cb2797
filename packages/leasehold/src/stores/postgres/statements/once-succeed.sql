-- Records a success under the lease of its key; the release of the lease follows in the same
-- transaction.
-- $1 namespace
-- $2 resource
-- $3 leaseId
-- $4 token
-- $5 key
-- $6 value
-- $7 keepMs

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  ),
  held AS MATERIALIZED (
    SELECT l.holder, l.token FROM leasehold.lease l CROSS JOIN clock c
    WHERE l.namespace = $1 AND l.resource = $2 AND l.lease_id = $3 AND l.token = $4::bigint AND (l.ended IS NULL AND l.expires_at > c.now)
    FOR NO KEY UPDATE OF l
  ),
  recorded AS (
    INSERT INTO leasehold.once AS o (namespace, key, value, token, holder, done_at, keep_until)
    SELECT $1, $5, $6, h.token, h.holder, c.now, c.now + $7::float8 * interval '1 millisecond' FROM held h CROSS JOIN clock c
    ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, token = excluded.token,
      holder = excluded.holder, done_at = excluded.done_at, keep_until = excluded.keep_until
    WHERE o.keep_until <= excluded.done_at
    RETURNING 1
  ),
  forgotten AS (
    DELETE FROM leasehold.once_failure f WHERE f.namespace = $1 AND f.key = $5 AND EXISTS (SELECT FROM recorded)
  )
SELECT (SELECT count(*) FROM held)::int AS held, (SELECT count(*) FROM recorded)::int AS recorded
