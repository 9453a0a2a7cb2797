-- Like task-list, with every filter: each adds its condition.
-- $1 namespace
-- $2 states
-- $3 queue
-- $4 kind
-- $5 cursor
-- $6 limit

-- lines 5 to 26 of task-list.sql
  SELECT t.* FROM leasehold.task t WHERE t.namespace = $1 AND t.state = ANY ($2::text[]) AND t.queue = $3 AND t.kind = $4 AND t.seq < $5::bigint
  ORDER BY t.seq DESC LIMIT $6::int
) t ORDER BY t.seq DESC
