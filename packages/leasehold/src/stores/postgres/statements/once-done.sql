-- Finds who has recorded a key before.
-- $1 namespace
-- $2 key

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  )
SELECT o.token::text AS token, o.holder AS by, (date_part('epoch', o.done_at) * 1000)::text AS at
FROM leasehold.once o CROSS JOIN clock c WHERE o.namespace = $1 AND o.key = $2 AND (o.keep_until IS NULL OR o.keep_until > c.now)
