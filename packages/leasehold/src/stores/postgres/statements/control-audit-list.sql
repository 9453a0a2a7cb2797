-- Reads a page of the audit, the latest entry first.
-- $1 limit

SELECT a.seq, a.at, a.namespace, a.actor, a.action, a.target, a.reason, a.phase, a.details, a.hash FROM leasehold.audit a  ORDER BY a.seq DESC LIMIT $1::int
