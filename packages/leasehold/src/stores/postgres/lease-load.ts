/** How keys of leases are loaded. No rule is stated here: store-kit/ decides on what this reads. */
import type { LeaseRecord } from "../../lease/index.js";
import {
  EMPTY_QUEUE,
  type KeyToLoad,
  type Loaded,
  type LoadedKeys,
} from "../../store-kit/index.js";
import type { Parameter, Scalar } from "./connection.js";
import { keyColumns } from "./keys.js";
import { AWAITED_CLOCK, CLOCK, KEY, microsOf } from "./lease-rows.js";
import { SAME_KEY, unnested } from "./sql-parts.js";

/**
 * Of the row: the transaction that wrote it. It covers every column, also whether the resource is paused; null: there is no row.
 */
export type Version = string | null;

/** A range with an order: only the index of the lease ids has that, so the planner never reads all waiters of the key. */
const ownWaiter = (id: string) => `(
      SELECT w.* FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", "i")} AND w.lease_id >= ${id} AND w.lease_id <= ${id}
      ORDER BY w.lease_id LIMIT 1
    )`;

interface LoadParts {
  readonly hasQueue: boolean;
  /** More common table expressions, columns and joins. */
  readonly with?: string;
  readonly column?: string;
  readonly join?: string;
  /** Which keys need their queues. */
  readonly needsQueue?: string;
}

export const loadStatement = ({
  hasQueue,
  with: more = "",
  column = "",
  join = "",
  needsQueue = "true",
}: LoadParts) => `
WITH ${hasQueue ? AWAITED_CLOCK : CLOCK}${more}
SELECT i.n::int AS n, ${microsOf("c.now")} AS now, greatest(c.token, (
    SELECT f.token + 1 FROM leasehold.token_floor f WHERE f.namespace = i.namespace
  )) AS "leastToken"${column}, l.*${
    hasQueue
      ? `,
  cardinality(p.places) AS waiters, p.holders[1] AS "firstHolder", o.own`
      : ""
  }
FROM ${unnested([...KEY, ...(hasQueue ? ([["ids", "text"]] as const) : [])])}
CROSS JOIN clock c${join} LEFT JOIN LATERAL (
  SELECT l.xmin::text AS version, l.lease_id AS "leaseId", l.holder, l.token, l.ttl_ms AS "ttlMs",
    ${microsOf("l.granted_at")} AS "grantedAt", ${microsOf("l.renewed_at")} AS "renewedAt",
    ${microsOf("l.expires_at")} AS "expiresAt", l.ended, l.metadata, l.paused
  FROM leasehold.lease l WHERE ${SAME_KEY("l", "i")} OFFSET 0
) l ON true${
  hasQueue
    ? `
LEFT JOIN LATERAL (
  SELECT array_agg(w.place ORDER BY w.place) AS places, array_agg(w.holder ORDER BY w.place) AS holders
  FROM leasehold.waiter w
  WHERE c.is_awaited AND ${needsQueue} AND ${SAME_KEY("w", "i")} AND w.expires_at > c.now
) p ON true LEFT JOIN LATERAL (
  SELECT string_agg(w.lease_id || ':' || width_bucket(w.place, p.places) - 1 || ':' || ${microsOf("w.expires_at")}, ',') AS own
  FROM unnest(string_to_array(i.ids, ',')) a (id) CROSS JOIN LATERAL ${ownWaiter("a.id")} w
  WHERE p.places IS NOT NULL AND w.expires_at > c.now
) o ON true`
    : ""
}`;

/** Values: namespaces, resources. */
const LOAD = loadStatement({ hasQueue: false });
/** Values: namespaces, resources, the lease ids of each whose positions are needed, with commas between them. */
const LOAD_QUEUE = loadStatement({ hasQueue: true });

export interface LoadedRow extends Record<string, Scalar>, RecordColumns {
  readonly n: number;
  readonly now: number;
  readonly leastToken: number;
  readonly version: Version;
  readonly paused: boolean | null;
}

export interface RecordColumns {
  /** Empty for a row of a resource that was paused and never leased; null: there is no row. */
  readonly leaseId: string | null;
  readonly holder: string;
  readonly token: number;
  readonly ttlMs: number;
  readonly grantedAt: number;
  readonly renewedAt: number | null;
  readonly expiresAt: number;
  readonly ended: LeaseRecord["ended"];
  readonly metadata: string | null;
}

export interface LoadedQueueRow extends LoadedRow {
  /** Null: there is none. */
  readonly waiters: number | null;
  readonly firstHolder: string | null;
  readonly own: string | null;
}

/** A statement that loads keys, and the meaning of its rows. */
export function loading(keys: readonly KeyToLoad[], needsQueue: boolean) {
  const ids = keys.map(({ leaseIds }) => leaseIds.join(","));
  const values: Parameter[] = [...keyColumns(keys), ...(needsQueue ? [ids] : [])];
  return {
    text: needsQueue ? LOAD_QUEUE : LOAD,
    values,
    loadedOf: (rows: readonly (LoadedRow | LoadedQueueRow)[]): LoadedKeys<Version> => {
      const loaded = new Array<Loaded<Version>>(keys.length);
      for (const row of rows) loaded[row.n - 1] = loadedOf(row);
      return { nowMs: (rows[0]?.now ?? 0) / 1_000, keys: loaded };
    },
  };
}

export function loadedOf(row: LoadedRow | LoadedQueueRow): Loaded<Version> {
  return {
    record: recordOf(row),
    version: row.version,
    isPaused: row.paused ?? false,
    leastToken: row.leastToken,
    queue: "own" in row ? queueOf(row as LoadedQueueRow) : null,
  };
}

export function recordOf(row: RecordColumns): LeaseRecord | null {
  const { leaseId, holder, token, ttlMs, ended, metadata } = row;
  if (!leaseId) return null;
  return {
    leaseId,
    holder,
    token,
    ttlMs,
    grantedAtMs: row.grantedAt / 1_000,
    renewedAtMs: row.renewedAt === null ? null : row.renewedAt / 1_000,
    expiresAtMs: row.expiresAt / 1_000,
    ended,
    metadata,
  };
}

function queueOf({ waiters, firstHolder, own }: LoadedQueueRow): Loaded<Version>["queue"] {
  if (!waiters) return EMPTY_QUEUE;
  const positions = (own ?? "").split(",").map((text) => {
    const [leaseId = "", ahead, expiresAt] = text.split(":");
    return [leaseId, { ahead: Number(ahead), expiresAtMs: Number(expiresAt) / 1_000 }] as const;
  });
  return { count: waiters, firstHolder: firstHolder ?? "", positions: new Map(positions) };
}
