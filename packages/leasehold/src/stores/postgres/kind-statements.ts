/** The statements of published kinds. Names: c the clock, k the published version, i the input. */
import { epochMs } from "./lease-rows.js";
import { unnested } from "./statements.js";
import { CLOCK } from "./task-statements.js";

export interface PublishedRow {
  /** Whether the statement has written the schema. */
  readonly written: boolean;
  /** Whether the version was published before. */
  readonly before: boolean;
  /** Whether there was room for another version. */
  readonly room: boolean;
}
/**
 * Values: namespace, kind, version, schema, who publishes it, the most versions. A repeated publication writes nothing, and
 * locks no row.
 */
export const PUBLISH = `
WITH ${CLOCK},
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
FROM room r`;

export interface SchemaRow {
  readonly n: number;
  readonly schema: string;
}
/** Values: namespaces, kinds, versions. Returns a row for each that is published. */
export const SCHEMAS = `
SELECT i.n::int AS n, k.schema
FROM ${unnested([
  ["namespace", "text"],
  ["kind", "text"],
  ["version", "int"],
])}
  JOIN leasehold.task_kind k ON k.namespace = i.namespace AND k.kind = i.kind AND k.version = i.version`;

export interface KindRow {
  readonly kind: string;
  readonly version: number;
  readonly schema: string;
  readonly publishedAt: number;
  readonly changedAt: number;
  readonly by: string;
}
/** Values: namespace, the kind or null, the kind and version to begin after, limit. */
export const LIST_KINDS = `
SELECT k.kind, k.version, k.schema, ${epochMs("k.published_at")} AS "publishedAt",
  ${epochMs("k.changed_at")} AS "changedAt", k.published_by AS by
FROM leasehold.task_kind k
WHERE k.namespace = $1 AND ($2::text IS NULL OR k.kind = $2) AND (k.kind, k.version) > ($3, $4::smallint)
ORDER BY k.kind, k.version LIMIT $5::int`;

/** Values: namespace, kind, version. Returns a row if it was published. */
export const WITHDRAW = `
DELETE FROM leasehold.task_kind k WHERE k.namespace = $1 AND k.kind = $2 AND k.version = $3::smallint
RETURNING 1 AS withdrawn`;
