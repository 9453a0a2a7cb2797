-- Withdraws a version.
-- $1 namespace
-- $2 kind
-- $3 version

DELETE FROM leasehold.task_kind k WHERE k.namespace = $1 AND k.kind = $2 AND k.version = $3::smallint
RETURNING 1 AS withdrawn
