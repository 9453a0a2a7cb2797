/**
 * The statements of the lease store: each decides a batch of requests on different keys, by the
 * rules in lease/rules.ts, in one statement that commits by itself.
 *
 *   seen ───────────────────────── decides what a plain read can decide: held, ended, taken ...
 *    └─ locked ─────────────────── rows that may change, in the order of their keys
 *         └─ granted, renewed ... ─ decided on the locked version of the row
 *
 * - Nothing waits for a row that somebody has locked: SKIP LOCKED. A request whose row was neither
 *   decided by the read nor locked is not answered; the caller asks once more, by a new read.
 * - Rows are locked in one order of keys before anything is inserted, and new rows are inserted in the
 *   same order after that: concurrent batches cannot deadlock.
 * - Time is clock_timestamp(), read once per statement. Not now(): that is when the transaction
 *   began. A lock is got at once or not at all, so that the time is not stale when it is used.
 * - Tokens are computed from the locked row. Larger than the last one, than all collected ones, and
 *   at least the clock in microseconds, which keeps them growing if a table is lost and made anew.
 * - Data-modifying parts run in the order in which they refer to each other, hence the
 *   `(SELECT count(*) ...) >= 0`.
 * - Each part carries along what the next ones need. Joined to each other, they would be compared row
 *   by row by a plan that was made for few: each request's row is looked up by its key, then by its place.
 *
 * Names: c the clock, s a request with the row as seen, k as locked, x as changed. What was asked for is
 * called asked_..., what the row says has the row's names. Times go out as milliseconds since 1970.
 */
import type { LeaseState } from "../../lease/index.js";
import { CHANNEL } from "./backend.js";
import { type Columns, unnested } from "./unnested.js";

/** Milliseconds from the statement's time until then. */
export const untilMs = (time: string) => `date_part('epoch', ${time} - c.now) * 1000`;
export const afterMs = (ms: string) => `c.now + ${ms} * interval '1 millisecond'`;
export const epochMs = (time: string) => `date_part('epoch', ${time}) * 1000`;
/** `grantIdOf`: lease ids do not leave the database. */
export const grantId = (row: string) =>
  `left(encode(sha256(convert_to(${row}.lease_id, 'UTF8')), 'hex'), 16)`;

/** `rules.isLive` and `rules.excludes`. */
export const isLive = (row: string) => `(${row}.ended IS NULL AND ${row}.expires_at > c.now)`;
export const excludes = (row: string) =>
  `(${row}.ended IS DISTINCT FROM 'released' AND ${row}.expires_at > c.now)`;

/** With a token of its time. */
export const CLOCK = `clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  )`;
export const SAME_KEY = (a: string, b: string) =>
  `${a}.namespace = ${b}.namespace AND ${a}.resource = ${b}.resource`;
const KEY: Columns = [
  ["namespace", "text"],
  ["resource", "text"],
];

/** Wakes the first in line for the key; nobody is told where nobody waits. */
export const wakeFirst = (row: string, which = "true") => `(
    SELECT pg_notify('${CHANNEL}', json_build_array('lease', f.namespace, f.resource, f.wakes)::text)::text
    FROM (
      SELECT w.namespace, w.resource, ${grantId("w")} AS wakes FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", row)} AND w.expires_at > c.now AND ${which}
      ORDER BY w.place LIMIT 1
    ) f
  )`;

export const ROW = `l.ctid AS at, l.lease_id, l.holder, l.token, l.ttl_ms, l.granted_at, l.renewed_at,
        l.expires_at, l.ended, l.metadata, l.paused`;
/**
 * The batch in the order of its keys, numbered from 1 as it came, with what a plain read says about each
 * key: nulls where there is no row. OFFSET 0 keeps the planner from reading the table otherwise than key
 * by key.
 */
export const seenFor = (columns: Columns, more = "") => `
  seen AS MATERIALIZED (
    SELECT i.*, s.*${more === "" ? "" : ", q.*"}
    FROM (
      SELECT * FROM ${unnested([...KEY, ...columns])}
      ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C"
    ) i CROSS JOIN clock c LEFT JOIN LATERAL (
      SELECT ${ROW} FROM leasehold.lease l WHERE ${SAME_KEY("l", "i")} OFFSET 0
    ) s ON true${more}
  )`;

/** The rows that are as `condition` says, also in the version that is then locked. */
export const lockedWhere = (asked: string, condition: (row: string) => string) => `
  locked AS MATERIALIZED (
    SELECT s.n, ${asked}, k.*
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT ${ROW} FROM leasehold.lease l
      WHERE l.ctid = s.at AND ${condition("l")}
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
    WHERE ${condition("s")}
  )`;
/**
 * What is locked stays where it stands. A version newer than what the statement sees is not found there:
 * it is passed over like one that is locked, and asked for again.
 */
export const SAME_PLACE = "l.ctid = k.at";

export interface ViewRow {
  readonly namespace: string;
  readonly resource: string;
  readonly holder: string;
  readonly grantId: string;
  readonly token: number;
  readonly state: LeaseState;
  readonly ttlMs: number;
  readonly remainingMs: number;
  readonly grantedAt: number;
  readonly renewedAt: number | null;
  readonly expiresAt: number;
  readonly metadata: string | null;
}

export interface RenewRow {
  readonly n: number;
  readonly status: "renewed" | "lost";
  readonly reason: "expired" | "revoked" | "taken" | "gone" | null;
  readonly token: number;
  readonly ttlMs: number;
  readonly remainingMs: number;
  readonly expiresAt: number;
}

/** Values: namespaces, resources, leaseIds, ttlMs. */
export const RENEW = `
WITH ${CLOCK},
  ${seenFor([
    ["asked_id", "text"],
    ["asked_ms", "int"],
  ])},
  ${lockedWhere("s.asked_ms", (row) => `${row}.lease_id = s.asked_id AND ${row}.ended IS NULL`)},
  renewed AS (
    UPDATE leasehold.lease l SET ttl_ms = k.asked_ms, renewed_at = c.now,
      expires_at = greatest(k.expires_at, ${afterMs("k.asked_ms")})
    FROM locked k CROSS JOIN clock c
    WHERE ${SAME_PLACE} AND ${isLive("k")}
    RETURNING k.n, l.token, l.ttl_ms, l.expires_at
  )
SELECT x.n::int AS n, 'renewed' AS status, NULL AS reason, x.token, x.ttl_ms AS "ttlMs",
  ${untilMs("x.expires_at")} AS "remainingMs", ${epochMs("x.expires_at")} AS "expiresAt"
FROM renewed x CROSS JOIN clock c
UNION ALL
SELECT k.n::int, 'lost', 'expired', NULL, NULL, NULL, NULL
FROM locked k CROSS JOIN clock c WHERE NOT ${isLive("k")}
UNION ALL
SELECT s.n::int, 'lost',
  CASE WHEN s.lease_id <> s.asked_id THEN 'taken' WHEN s.ended = 'revoked' THEN 'revoked'
    ELSE 'gone' END,
  NULL, NULL, NULL, NULL
FROM seen s WHERE s.lease_id IS NULL OR s.lease_id <> s.asked_id OR s.ended IS NOT NULL`;

export interface ReleaseRow {
  readonly n: number;
  readonly status: "released" | "notHeld";
}

/** Gives up grants, and places in line. Values: namespaces, resources, leaseIds. */
export const RELEASE = `
WITH ${CLOCK},
  ${seenFor([["asked_id", "text"]])},
  ${lockedWhere(
    "s.asked_id",
    (row) => `${row}.lease_id = s.asked_id AND ${row}.ended IS DISTINCT FROM 'released'`,
  )},
  released AS (
    UPDATE leasehold.lease l SET ended = 'released', expires_at = c.now
    FROM locked k CROSS JOIN clock c
    WHERE ${SAME_PLACE} AND ${excludes("k")}
    RETURNING k.n, l.namespace, l.resource
  ),
  ticket AS MATERIALIZED (
    SELECT w.*, coalesce(${excludes("s")}, false) AS excluded
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT w.namespace, w.resource, w.lease_id FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", "s")} AND w.lease_id = s.asked_id
      FOR UPDATE OF w SKIP LOCKED
    ) w
  ),
  withdrawn AS (
    DELETE FROM leasehold.waiter w USING ticket t
    WHERE ${SAME_KEY("w", "t")} AND w.lease_id = t.lease_id
    RETURNING w.namespace, w.resource, w.place, t.excluded
  ),
  -- What was kept for this one is kept for the next.
  passed_on AS MATERIALIZED (
    SELECT ${wakeFirst("t", "w.place > t.place")} FROM withdrawn t CROSS JOIN clock c
    WHERE NOT t.excluded
  )
SELECT x.n::int AS n, 'released' AS status, ${wakeFirst("x")} AS woken
FROM released x CROSS JOIN clock c
UNION ALL
SELECT k.n::int, 'notHeld', NULL FROM locked k CROSS JOIN clock c WHERE NOT ${excludes("k")}
UNION ALL
SELECT s.n::int, CASE WHEN s.lease_id = s.asked_id THEN 'released' ELSE 'notHeld' END, NULL
FROM seen s
WHERE (s.lease_id IS NULL OR s.lease_id <> s.asked_id OR s.ended = 'released')
  AND (SELECT count(*) FROM passed_on) >= 0`;

export interface RevokeRow {
  readonly n: number;
  readonly status: "revoked" | "notHeld" | "otherToken";
  readonly token: number;
  readonly freeInMs: number;
}

/** Values: namespaces, resources, expectedTokens (null: any), whether to free now. */
export const REVOKE = `
WITH ${CLOCK},
  ${seenFor([
    ["expected", "float8"],
    ["free_now", "bool"],
  ])},
  ${lockedWhere(
    "s.free_now",
    (row) => `${excludes(row)} AND coalesce(${row}.token = s.expected, true)`,
  )},
  revoked AS (
    UPDATE leasehold.lease l SET ended = 'revoked',
      expires_at = CASE WHEN k.free_now THEN c.now ELSE k.expires_at END
    FROM locked k CROSS JOIN clock c
    WHERE ${SAME_PLACE}
    RETURNING k.n, l.namespace, l.resource, l.token, l.expires_at, k.free_now
  )
SELECT x.n::int AS n, 'revoked' AS status, x.token, ${untilMs("x.expires_at")} AS "freeInMs",
  CASE WHEN x.free_now THEN ${wakeFirst("x")} END AS woken
FROM revoked x CROSS JOIN clock c
UNION ALL
SELECT s.n::int, CASE WHEN ${excludes("s")} THEN 'otherToken' ELSE 'notHeld' END, NULL, NULL, NULL
FROM seen s CROSS JOIN clock c
WHERE s.lease_id IS NULL OR NOT ${excludes("s")} OR s.token <> s.expected`;
