-- Publishes the schema of a version. A repetition writes nothing.
-- $1 namespace
-- $2 kind
-- $3 version
-- $4 schema
-- $5 publishedBy
-- $6 mostKinds

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  before AS MATERIALIZED (
    SELECT k.schema = $4 AS same FROM leasehold.task_kind k
    WHERE k.namespace = $1 AND k.kind = $2 AND k.version = $3
  ),
  room AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM before)
      OR (SELECT count(*) FROM leasehold.task_kind k WHERE k.namespace = $1) < $6::int AS room
  ),
  written AS (
    INSERT INTO leasehold.task_kind AS k (namespace, kind, version, schema, published_at, changed_at, published_by)
    SELECT $1, $2, $3::smallint, $4, c.now, c.now, $5
    FROM clock c CROSS JOIN room r
    WHERE r.room AND NOT EXISTS (SELECT FROM before b WHERE b.same)
    ON CONFLICT (namespace, kind, version) DO UPDATE SET schema = excluded.schema,
      changed_at = excluded.changed_at, published_by = excluded.published_by
    WHERE k.schema IS DISTINCT FROM excluded.schema
    RETURNING 1
  )
SELECT EXISTS (SELECT FROM written) AS written, EXISTS (SELECT FROM before) AS before, r.room
FROM room r
