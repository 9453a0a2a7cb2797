-- Reads the pauses of a namespace, or of all.
-- $1 namespace

SELECT p.namespace, p.kind, p.name, p.actor, p.reason, to_char(p.since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS since FROM leasehold.pause p WHERE $1::text IS NULL OR p.namespace = $1
ORDER BY p.namespace, p.kind, p.name
