-- Like control-audit-list, with every filter: each adds its condition. A page by actions passes
-- over a bounded number of entries.
-- $1 limit
-- $2 mostPassed
-- $3 namespace
-- $4 target
-- $5 beforeSeq
-- $6 actions

WITH passed AS MATERIALIZED (
  SELECT a.seq, a.action FROM leasehold.audit a WHERE a.namespace = $3 AND a.target = $4 AND a.seq < $5::bigint ORDER BY a.seq DESC LIMIT $2::int
), wanted AS (SELECT p.seq FROM passed p WHERE p.action = ANY ($6::text[]) ORDER BY p.seq DESC LIMIT $1::int)
SELECT p."lastPassed", a.seq, a.at, a.namespace, a.actor, a.action, a.target, a.reason, a.phase, a.details, a.hash
FROM (SELECT CASE WHEN count(*) = $2 THEN min(seq) END AS "lastPassed" FROM passed) p
LEFT JOIN (wanted w JOIN leasehold.audit a ON a.seq = w.seq) ON true ORDER BY a.seq DESC
