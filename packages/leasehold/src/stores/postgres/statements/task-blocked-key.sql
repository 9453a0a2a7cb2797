-- Like task-blocked-keys, of one key.
-- $1 namespace
-- $2 limit
-- $3 queue
-- $4 kind
-- $5 key

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  keys AS MATERIALIZED (SELECT $1::text AS namespace, $3::text AS queue, $4::text AS kind, $5::text AS key)
-- lines 14 to 49 of task-blocked-keys.sql
