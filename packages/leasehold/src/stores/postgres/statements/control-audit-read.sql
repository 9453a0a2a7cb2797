-- Reads the audit chain in its order.
-- $1 afterSeq
-- $2 limit

SELECT a.seq, a.at, a.namespace, a.actor, a.action, a.target, a.reason, a.phase, a.details, a.hash FROM leasehold.audit a WHERE a.seq > $1::bigint ORDER BY a.seq LIMIT $2::int
