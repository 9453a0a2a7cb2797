/**
 * How decisions about keys are saved: each if the row is as it was loaded, and if the grant that it extends or ends has not
 * expired meanwhile. No rule is stated here.
 *
 *   change ─▶ locked ─▶ updated ─┐
 *     ├─────▶ created ───────────┴▶ saved ─▶ waiters leave, the first one that remains is woken
 *     └─────▶ waiters join, whether or not it is saved
 *
 * - No statement waits for a row lock: SKIP LOCKED. A row that is locked is taken for one that has changed.
 * - Rows are locked and created in key order, so that concurrent saves cannot deadlock.
 * - A row that was created and collected since the load is caught by `above_floor`, once the new row exists.
 */
import type { LeaseRecord } from "../../lease/index.js";
import type { Change } from "../../store-kit/index.js";
import type { Parameter } from "./connection.js";
import { keyColumns } from "./keys.js";
import type { Version } from "./lease-load.js";
import { excludes } from "./lease-rows.js";
import { type Columns, SAME_KEY, unnested } from "./sql-parts.js";
import { COMES_AGAIN, PLACE_OF, wakeFirst } from "./wait-queue.js";

const timeOf = (micros: string) => `timestamptz 'epoch' + ${micros} * interval '1 microsecond'`;
const COLUMNS: Columns = [
  ["namespace", "text"],
  ["resource", "text"],
  ["version", "text"],
  // Null: the record stays.
  ["lease_id", "text"],
  ["holder", "text"],
  ["token", "int8"],
  ["ttl_ms", "int"],
  ["granted", "int8"],
  ["renewed", "int8"],
  ["expires", "int8"],
  ["ended", "text"],
  ["metadata", "text"],
  ["changes_grant", "bool"],
  ["wakes", "bool"],
  // It only gives up positions.
  ["withdraws", "bool"],
];
const VALUES = COLUMNS.length;
/** A live record that is over already was decided by a client that was paused. */
const IN_TIME = `(i.ended IS NOT NULL OR ${timeOf("i.expires")} > c.now)`;

/** A statement does not see what it deletes. */
const NOT_LEAVING = "NOT EXISTS (SELECT FROM leaving o WHERE o.lease_id = w.lease_id)";

const queueParts = `,
  asked AS MATERIALIZED (
    SELECT i.namespace, i.resource, a.* FROM unnest((SELECT $${VALUES + 1}::int8[]), (SELECT $${VALUES + 2}::text[]),
        (SELECT $${VALUES + 3}::text[]), (SELECT $${VALUES + 4}::text[]), (SELECT $${VALUES + 5}::int8[]))
      WITH ORDINALITY AS a (n, what, asked_id, holder, expires, nth) JOIN change i ON i.n = a.n
    -- A position may be had in any case; it is given up only with what was decided.
    WHERE a.what = 'joins' OR EXISTS (SELECT FROM saved v WHERE v.n = a.n)
  ),
  joined AS (
    INSERT INTO leasehold.waiter AS w (namespace, resource, lease_id, holder, expires_at, place)
    OVERRIDING SYSTEM VALUE
    SELECT a.namespace, a.resource, a.asked_id, a.holder, ${timeOf("a.expires")}, ${PLACE_OF("a.nth")}
    FROM asked a WHERE a.what = 'joins'
    ORDER BY a.namespace COLLATE "C", a.resource COLLATE "C", a.asked_id COLLATE "C"
    ${COMES_AGAIN}
    RETURNING 1
  ),
  leaving AS MATERIALIZED (
    SELECT w.namespace, w.resource, w.lease_id FROM asked a
      JOIN leasehold.waiter own ON ${SAME_KEY("own", "a")} AND own.lease_id = a.asked_id
      JOIN leasehold.waiter w ON ${SAME_KEY("w", "a")}
        AND (w.place = own.place OR w.place < own.place AND a.what = 'served')
    WHERE a.what <> 'joins' AND (SELECT count(*) FROM joined) >= 0
    FOR UPDATE OF w SKIP LOCKED
  ),
  gone AS (
    DELETE FROM leasehold.waiter w USING leaving o
    WHERE ${SAME_KEY("w", "o")} AND w.lease_id = o.lease_id
    RETURNING 1
  )
SELECT s.n::int AS n, CASE WHEN s.wakes THEN ${wakeFirst("s", NOT_LEAVING)} END AS woken
FROM saved s CROSS JOIN clock c`;

const save = (hasQueue: boolean) => `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  change AS MATERIALIZED (
    SELECT * FROM ${unnested(COLUMNS)}
    ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C"
  ),
  locked AS MATERIALIZED (
    SELECT i.*, k.at FROM change i CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at FROM leasehold.lease l
      WHERE ${SAME_KEY("l", "i")} AND l.xmin::text = i.version AND (NOT i.changes_grant OR l.expires_at > c.now)
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k WHERE i.lease_id IS NOT NULL AND ${IN_TIME}
  ),
  updated AS (
    UPDATE leasehold.lease l SET lease_id = k.lease_id, holder = k.holder, token = k.token, ttl_ms = k.ttl_ms,
      granted_at = ${timeOf("k.granted")}, renewed_at = ${timeOf("k.renewed")}, expires_at = ${timeOf("k.expires")},
      ended = k.ended, metadata = k.metadata
    FROM locked k WHERE l.ctid = k.at
    RETURNING k.n, k.namespace, k.resource, k.wakes
  ),
  created AS (
    INSERT INTO leasehold.lease AS l
      (namespace, resource, lease_id, holder, token, ttl_ms, granted_at, expires_at, metadata)
    SELECT i.namespace, i.resource, i.lease_id, i.holder, i.token, i.ttl_ms, ${timeOf("i.granted")},
      ${timeOf("i.expires")}, i.metadata
    FROM change i CROSS JOIN clock c
    WHERE i.version IS NULL AND i.lease_id IS NOT NULL AND ${IN_TIME} AND (SELECT count(*) FROM updated) >= 0
    ON CONFLICT (namespace, resource) DO NOTHING
    RETURNING l.namespace, l.resource, l.token, l.lease_id
  ),
  above AS MATERIALIZED (
    SELECT leasehold.above_floor(x.namespace, min(x.token)) FROM created x GROUP BY x.namespace
  ),
  saved AS MATERIALIZED (
    SELECT u.n, u.namespace, u.resource, u.wakes FROM updated u
    UNION ALL
    SELECT i.n, i.namespace, i.resource, i.wakes
    FROM created x JOIN change i ON i.lease_id = x.lease_id AND ${SAME_KEY("i", "x")}
    WHERE (SELECT count(*) FROM above) >= 0
    UNION ALL
    -- Nothing is written but waiters, if the row is as it was loaded. Positions are given up in any case, and where the row has
    -- changed, or its resource is free for a waiter that became the first since, the first one that remains may have to know.
    SELECT i.n, i.namespace, i.resource,
      i.wakes OR l.xmin::text IS DISTINCT FROM i.version OR (i.withdraws AND ${excludes("l")} IS NOT TRUE)
    FROM change i CROSS JOIN clock c LEFT JOIN leasehold.lease l ON ${SAME_KEY("l", "i")}
    WHERE i.lease_id IS NULL AND (i.withdraws OR l.xmin::text IS NOT DISTINCT FROM i.version)
  )${hasQueue ? queueParts : "\nSELECT s.n::int AS n FROM saved s"}`;
const [SAVE, SAVE_QUEUE] = [save(false), save(true)];

const micros = (ms: number) => Math.round(ms * 1_000);

/** A statement that saves changes; its rows have the numbers of those that it has saved. */
export function saving(changes: readonly Change<Version>[]) {
  const of = <T>(column: (record: LeaseRecord) => T) =>
    changes.map(({ record }) => record && column(record));
  const asked = changes.flatMap(({ joins, served, withdrawn }, at) => [
    ...joins.map(({ leaseId, holder, expiresAtMs }) => {
      return [at + 1, "joins", leaseId, holder, micros(expiresAtMs)] as const;
    }),
    ...(served === null ? [] : [[at + 1, "served", served, null, null] as const]),
    ...withdrawn.map((leaseId) => [at + 1, "withdrawn", leaseId, null, null] as const),
  ]);
  const hasQueue = asked.length > 0 || changes.some(({ wakes }) => wakes);
  const values: Parameter[] = [
    ...keyColumns(changes),
    changes.map(({ version }) => version),
    of(({ leaseId }) => leaseId),
    of(({ holder }) => holder),
    of(({ token }) => token),
    of(({ ttlMs }) => ttlMs),
    of(({ grantedAtMs }) => micros(grantedAtMs)),
    of(({ renewedAtMs }) => renewedAtMs && micros(renewedAtMs)),
    of(({ expiresAtMs }) => micros(expiresAtMs)),
    of(({ ended }) => ended),
    of(({ metadata }) => metadata),
    changes.map(({ changesGrant }) => changesGrant),
    changes.map(({ wakes }) => wakes),
    changes.map(({ record, served, joins }) => !record && served === null && joins.length === 0),
    ...(hasQueue ? [0, 1, 2, 3, 4].map((column) => asked.map((row) => row[column] ?? null)) : []),
  ];
  return {
    text: hasQueue ? SAVE_QUEUE : SAVE,
    values,
    savedOf: (rows: readonly { readonly n: number }[]): boolean[] => {
      const saved = new Array<boolean>(changes.length).fill(false);
      for (const { n } of rows) saved[n - 1] = true;
      return saved;
    },
  };
}
