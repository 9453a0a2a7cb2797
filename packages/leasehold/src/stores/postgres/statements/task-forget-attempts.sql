-- Deletes attempts of tasks that have had very many.
-- $1 namespaces
-- $2 ids
-- $3 attempts

DELETE FROM leasehold.attempt a
USING unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::int[]))
      WITH ORDINALITY AS i (namespace, id, attempt, n)
  JOIN leasehold.task t ON t.namespace = i.namespace AND t.id = i.id
WHERE a.namespace = t.namespace AND a.task_seq = t.seq AND a.attempt <= i.attempt
