-- Like control-audit-list, with every filter: each adds its condition.
-- $1 limit
-- $2 namespace
-- $3 target
-- $4 actions
-- $5 beforeSeq

SELECT a.seq, a.at, a.namespace, a.actor, a.action, a.target, a.reason, a.phase, a.details, a.hash FROM leasehold.audit a WHERE a.namespace = $2 AND a.target = $3 AND a.action = ANY ($4::text[]) AND a.seq < $5::bigint ORDER BY a.seq DESC LIMIT $1::int
