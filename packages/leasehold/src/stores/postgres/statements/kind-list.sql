-- Reads a page of the published versions, by kind and version.
-- $1 namespace
-- $2 kind
-- $3 afterKind
-- $4 afterVersion
-- $5 limit

SELECT k.kind, k.version, k.schema, date_part('epoch', k.published_at) * 1000 AS "publishedAt",
  date_part('epoch', k.changed_at) * 1000 AS "changedAt", k.published_by AS by
FROM leasehold.task_kind k
WHERE k.namespace = $1 AND ($2::text IS NULL OR k.kind = $2) AND (k.kind, k.version) > ($3, $4::smallint)
ORDER BY k.kind, k.version LIMIT $5::int
