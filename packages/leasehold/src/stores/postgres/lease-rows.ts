/** SQL parts shared by the lease statements; lease-statements.ts explains how they work together. */
import { type Columns, SAME_KEY, unnested } from "./sql-parts.js";

/** Milliseconds from the statement's time to the given time. */
export const untilMs = (time: string) => `date_part('epoch', ${time} - c.now) * 1000`;
export const epochMs = (time: string) => `date_part('epoch', ${time}) * 1000`;
/** Times go in and out as microseconds since 1970, which a double holds exactly. `extract` would be numeric, and slower. */
export const microsOf = (time: string) => `(date_part('epoch', ${time}) * 1000000)::bigint`;

/** `rules.isLive` and `rules.excludes`. */
export const isLive = (row: string) => `(${row}.ended IS NULL AND ${row}.expires_at > c.now)`;
export const excludes = (row: string) =>
  `(${row}.ended IS DISTINCT FROM 'released' AND ${row}.expires_at > c.now)`;

/** The statement's time, and the same in microseconds, which is the least that a new token is. */
export const CLOCK = `clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  )`;
/** Most of the time there is no waiter: then this is asked once, not once a resource. A column of the clock. */
export const IS_AWAITED = "EXISTS (SELECT FROM leasehold.waiter) AS is_awaited";
export const KEY: Columns = [
  ["namespace", "text"],
  ["resource", "text"],
];

export const ROW = `l.ctid AS at, l.lease_id, l.holder, l.token, l.ttl_ms, l.granted_at, l.renewed_at,
        l.expires_at, l.ended, l.metadata, l.paused`;
/**
 * The batch in key order, numbered from 1 in request order, with the row that a plain read finds for
 * each key, or nulls. OFFSET 0 makes the planner look up the table key by key.
 */
export const seenFor = (columns: Columns, more = "") => `seen AS MATERIALIZED (
    SELECT i.*, s.*${more === "" ? "" : ", q.*"}
    FROM (
      SELECT * FROM ${unnested([...KEY, ...columns])}
      ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C"
    ) i CROSS JOIN clock c LEFT JOIN LATERAL (
      SELECT ${ROW} FROM leasehold.lease l WHERE ${SAME_KEY("l", "i")} OFFSET 0
    ) s ON true${more}
  )`;

/** Locks the rows that match `condition`, also in the version that is then locked. */
export const lockedWhere = (
  asked: string,
  condition: (row: string) => string,
) => `locked AS MATERIALIZED (
    SELECT s.n, ${asked}, k.*
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT ${ROW} FROM leasehold.lease l
      WHERE l.ctid = s.at AND ${condition("l")}
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
    WHERE ${condition("s")}
  )`;
/**
 * Locked rows are addressed by their physical position (ctid). A row version newer than the statement's
 * snapshot is not found there; like a locked row, it is skipped and retried.
 */
export const SAME_PLACE = "l.ctid = k.at";
