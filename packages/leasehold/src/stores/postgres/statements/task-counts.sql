-- Counts the tasks of each state.
-- $1 namespace

SELECT state, count(*) AS count FROM leasehold.task WHERE namespace = $1 GROUP BY state
