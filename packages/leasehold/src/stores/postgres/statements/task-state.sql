-- Reads the tasks that a statement did not change: refused, repeated, or only locked.
-- $1 namespaces
-- $2 ids
-- $3 leaseIds
-- $4 tokens

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT i.n::int AS n, t.state, t.result, o.own, coalesce(c.now < t.expires_at, false) AS live,
  (extract(epoch FROM t.scheduled_at - c.now) * 1000)::float8 AS "retryInMs",
  EXISTS (
      SELECT FROM leasehold.task rival WHERE rival.namespace = t.namespace
        AND rival.kind = t.kind AND rival.dedupe_key = t.dedupe_key
        AND rival.state IN ('pending', 'running') AND rival.id <> t.id
    ) AS rival
FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::bigint[]))
      WITH ORDINALITY AS i (namespace, id, lease_id, token, n) JOIN leasehold.task t ON t.namespace = i.namespace AND t.id = i.id CROSS JOIN clock c
  CROSS JOIN LATERAL (
    SELECT coalesce(t.lease_id = i.lease_id AND t.token = i.token, false) AS own
  ) o
