-- Deletes each task that has ended, with its attempts.
-- $1 namespaces
-- $2 ids

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  input AS MATERIALIZED (SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]))
      WITH ORDINALITY AS i (namespace, id, n)),
  held AS MATERIALIZED (
    SELECT i.*, t.* FROM (SELECT * FROM input ORDER BY namespace COLLATE "C", id COLLATE "C") i
      CROSS JOIN clock c CROSS JOIN LATERAL (
        SELECT t.ctid AS at FROM leasehold.task t
        WHERE t.namespace = i.namespace AND t.id = i.id AND (t.state <> 'running')
        FOR NO KEY UPDATE OF t SKIP LOCKED
      ) t
  ),
  changed AS (
    DELETE FROM leasehold.task t USING held h WHERE t.ctid = h.at
    RETURNING h.n, t.namespace, t.seq, t.state
  ),
  forgotten AS (
    DELETE FROM leasehold.attempt a USING changed x
    WHERE a.namespace = x.namespace AND a.task_seq = x.seq
  )
SELECT x.n::int AS n, x.state FROM changed x
