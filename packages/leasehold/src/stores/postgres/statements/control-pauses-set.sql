-- Writes a pause: who set it, when and why.
-- $1 namespace
-- $2 kind
-- $3 name
-- $4 actor
-- $5 reason

INSERT INTO leasehold.pause AS p (namespace, kind, name, actor, reason, since)
VALUES ($1, $2, $3, $4, $5, clock_timestamp())
ON CONFLICT (namespace, kind, name) DO UPDATE
  SET actor = excluded.actor, reason = excluded.reason
RETURNING p.namespace, p.kind, p.name, p.actor, p.reason, to_char(p.since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS since
