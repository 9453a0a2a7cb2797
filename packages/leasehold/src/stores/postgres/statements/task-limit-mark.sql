-- Marks the tasks of a limit that run since before it was declared, so that they count.
-- $1 namespace
-- $2 scope
-- $3 name

UPDATE leasehold.task t SET limited = true
WHERE t.ctid = ANY (ARRAY(
  SELECT t.ctid FROM leasehold.task t
  WHERE t.namespace = $1 AND t.state = 'running' AND NOT t.limited AND CASE $2::text WHEN 'kind' THEN t.kind ELSE t.queue END = $3
  FOR NO KEY UPDATE OF t SKIP LOCKED
)) AND t.state = 'running'
