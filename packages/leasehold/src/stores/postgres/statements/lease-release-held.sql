-- Ends each grant of a batch that no caller waits for. Its one row lists their numbers:
-- lease-release decides the others.
-- $1 namespace
-- $2 resources
-- $3 leaseIds

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  locked AS MATERIALIZED (
    SELECT i.n, k.*
    FROM (
      SELECT * FROM unnest((SELECT $2::text[]), (SELECT $3::text[]))
        WITH ORDINALITY AS i (resource, asked_id, n)
      ORDER BY i.resource COLLATE "C"
    ) i CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.expires_at FROM leasehold.lease l
      WHERE l.namespace = $1 AND l.resource = i.resource AND l.lease_id = i.asked_id AND (l.ended IS DISTINCT FROM 'released' AND l.expires_at > c.now) AND NOT ((SELECT EXISTS (SELECT FROM leasehold.waiter)) AND EXISTS (
        SELECT FROM leasehold.waiter w
        WHERE w.namespace = $1::text AND w.resource = l.resource AND w.expires_at > c.now
      ))
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
  ),
  released AS (
    UPDATE leasehold.lease l SET ended = 'released', expires_at = c.now
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at
    RETURNING k.n
  )
SELECT (SELECT string_agg(x.n::text, ',') FROM released x) AS released
