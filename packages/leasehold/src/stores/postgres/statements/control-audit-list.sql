-- Reads a page of the audit, the latest entry first.
-- $1 limit
-- $2 mostPassed

WITH passed AS MATERIALIZED (
  SELECT a.seq, a.action FROM leasehold.audit a  ORDER BY a.seq DESC LIMIT $2::int
), wanted AS (SELECT p.seq FROM passed p  ORDER BY p.seq DESC LIMIT $1::int)
SELECT p."lastPassed", a.seq, a.at, a.namespace, a.actor, a.action, a.target, a.reason, a.phase, a.details, a.hash
FROM (SELECT CASE WHEN count(*) = $2 THEN min(seq) END AS "lastPassed" FROM passed) p
LEFT JOIN (wanted w JOIN leasehold.audit a ON a.seq = w.seq) ON true ORDER BY a.seq DESC
