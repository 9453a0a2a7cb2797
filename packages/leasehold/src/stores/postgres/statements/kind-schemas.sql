-- Reads the schemas of versions.
-- $1 namespaces
-- $2 kinds
-- $3 versions

SELECT i.n::int AS n, k.schema
FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::int[]))
      WITH ORDINALITY AS i (namespace, kind, version, n)
  JOIN leasehold.task_kind k ON k.namespace = i.namespace AND k.kind = i.kind AND k.version = i.version
