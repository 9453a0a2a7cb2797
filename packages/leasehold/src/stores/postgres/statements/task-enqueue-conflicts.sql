-- Reads why tasks were not added: the id exists, or another task has the dedupeKey.
-- $1 namespaces
-- $2 ids
-- $3 kinds
-- $4 dedupeKeys
-- $5 data

SELECT i.n::int AS n, same.kind, same.queue, rival.id AS rival,
  CASE WHEN octet_length(same.data) = octet_length(i.data) THEN same.data END AS data
FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::text[]), (SELECT $5::text[]))
      WITH ORDINALITY AS i (namespace, id, kind, dedupe_key, data, n)
  LEFT JOIN leasehold.task same ON same.namespace = i.namespace AND same.id = i.id
  LEFT JOIN leasehold.task rival ON rival.namespace = i.namespace AND rival.kind = i.kind
    AND rival.dedupe_key = i.dedupe_key AND rival.state IN ('pending', 'running')
