-- Deletes records whose time is over.
-- $1 limit

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  ),
  old AS MATERIALIZED (
    SELECT o.namespace, o.key FROM leasehold.once o CROSS JOIN clock c
    WHERE o.keep_until <= c.now ORDER BY o.keep_until LIMIT $1::int FOR UPDATE OF o SKIP LOCKED
  )
DELETE FROM leasehold.once o USING old x WHERE o.namespace = x.namespace AND o.key = x.key RETURNING 1 AS deleted
