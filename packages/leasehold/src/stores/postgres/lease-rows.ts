/** SQL parts shared by the lease statements. */
import type { Columns } from "./sql-parts.js";

/** Milliseconds from the statement's time to the given time. */
export const untilMs = (time: string) => `date_part('epoch', ${time} - c.now) * 1000`;
export const epochMs = (time: string) => `date_part('epoch', ${time}) * 1000`;
/** Times go in and out as microseconds since 1970, which a double holds exactly. `extract` would be numeric, and slower. */
export const microsOf = (time: string) => `(date_part('epoch', ${time}) * 1000000)::bigint`;

/** `rules.isLive` and `rules.excludes`. */
export const isLive = (row: string) => `(${row}.ended IS NULL AND ${row}.expires_at > c.now)`;
export const excludes = (row: string) =>
  `(${row}.ended IS DISTINCT FROM 'released' AND ${row}.expires_at > c.now)`;

/** Whether anyone waits. Most of the time there is no waiter: then this is asked once, not once a resource. */
export const IS_AWAITED = "EXISTS (SELECT FROM leasehold.waiter) AS is_awaited";
const clockWith = (more: string) => `clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token${more}
    FROM (SELECT clock_timestamp() AS now) t
  )`;
/** The statement's time, and the same in microseconds, which is the least that a new token is. */
export const CLOCK = clockWith("");
export const AWAITED_CLOCK = clockWith(`, ${IS_AWAITED}`);
export const KEY: Columns = [
  ["namespace", "text"],
  ["resource", "text"],
];
