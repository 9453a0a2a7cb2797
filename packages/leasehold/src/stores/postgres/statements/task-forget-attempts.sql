-- Deletes attempts of tasks that have had very many.
-- $1 namespaces
-- $2 ids
-- $3 attempts

DELETE FROM leasehold.attempt a
USING unnest((SELECT $1::text[]), (SELECT $2::uuid[]), (SELECT $3::int[]))
      WITH ORDINALITY AS i (namespace, id, attempt, n)
WHERE a.namespace = i.namespace AND a.task_id = i.id AND a.attempt <= i.attempt
