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
import { type LeaseState, queue } from "../../lease/index.js";
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
const wakeFirst = (row: string, which = "true") => `(
    SELECT pg_notify('${CHANNEL}', json_build_array('lease', f.namespace, f.resource, f.wakes)::text)::text
    FROM (
      SELECT w.namespace, w.resource, ${grantId("w")} AS wakes FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", row)} AND w.expires_at > c.now AND ${which}
      ORDER BY w.place LIMIT 1
    ) f
  )`;

const ROW = `l.ctid AS at, l.lease_id, l.holder, l.token, l.ttl_ms, l.granted_at, l.renewed_at,
        l.expires_at, l.ended, l.metadata`;
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
const lockedWhere = (asked: string, condition: (row: string) => string) => `
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
const SAME_PLACE = "l.ctid = k.at";

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

export interface AcquireRow {
  /** Null where a row was made: then its key. */
  readonly n: number | null;
  readonly namespace: string | null;
  readonly resource: string | null;
  readonly status: "acquired" | "held" | "ended";
  readonly token: number;
  readonly ttlMs: number;
  readonly remainingMs: number;
  readonly expiresAt: number;
  /** Who is in the way; of a replaced grant, whose it was. Null where a row was made. */
  readonly holder: string;
  readonly grantId: string | null;
  readonly ahead: number | null;
  /** Of the grant that was replaced. */
  readonly oldToken: number | null;
  readonly oldTtlMs: number;
  readonly oldState: LeaseState;
  readonly oldGrantedAt: number;
  readonly oldRenewedAt: number | null;
  readonly oldExpiresAt: number;
  readonly oldMetadata: string | null;
}

/**
 * The line before each request, where there is one: how many, and the time that is kept for them as
 * lease/queue.ts says.
 */
const lineBefore = (which: string) => ` CROSS JOIN LATERAL (
      SELECT count(*)::int AS ahead,
        least(count(*), ${queue.MOST_AWAITED}) * interval '${queue.RESERVED_MS} milliseconds' AS turns
      FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", "i")} AND w.expires_at > c.now
        AND s.lease_id <> i.asked_id AND ${which}
        AND w.place < coalesce((
          SELECT own.place FROM leasehold.waiter own
          WHERE ${SAME_KEY("own", "i")} AND own.lease_id = i.asked_id AND own.expires_at > c.now
        ), ${2n ** 63n - 1n})
    ) q`;
const FIRST_IN_LINE = `(
        SELECT w.holder FROM leasehold.waiter w
        WHERE ${SAME_KEY("w", "s")} AND w.expires_at > c.now AND s.ahead > 0
        ORDER BY w.place LIMIT 1
      )`;
/** A clock that was set back reserves nothing. */
const isKept = (row: string, turns: string) =>
  `(c.now >= ${row}.expires_at AND c.now < ${row}.expires_at + ${turns})`;
const floorOf = (row: string) =>
  `(SELECT f.token + 1 FROM leasehold.token_floor f WHERE f.namespace = ${row}.namespace)`;

const acquire = (waits: boolean, more: string) => `
WITH ${CLOCK},
  ${seenFor(
    [
      ["asked_id", "text"],
      ["asked_by", "text"],
      ["asked_ms", "int"],
      ["queue_ms", "int"],
      ["asked_metadata", "text"],
    ],
    lineBefore(waits ? "true" : `NOT ${excludes("s")}`),
  )},
  ${lockedWhere(
    "s.namespace, s.resource, s.asked_id, s.asked_by, s.asked_ms, s.queue_ms, s.asked_metadata",
    (row) =>
      `${row}.lease_id <> s.asked_id AND NOT ${excludes(row)} AND NOT ${isKept(row, "s.turns")}`,
  )},
  granted AS (
    UPDATE leasehold.lease l SET
      lease_id = k.asked_id, holder = k.asked_by, metadata = k.asked_metadata, ttl_ms = k.asked_ms,
      token = greatest(k.token + 1, ${floorOf("k")}, c.token),
      granted_at = c.now, renewed_at = NULL, expires_at = ${afterMs("k.asked_ms")}, ended = NULL
    FROM locked k CROSS JOIN clock c
    WHERE ${SAME_PLACE}
    RETURNING k.*, l.token AS new_token, l.expires_at AS new_expires_at
  ),
  created AS (
    INSERT INTO leasehold.lease AS l
      (namespace, resource, lease_id, holder, metadata, ttl_ms, token, granted_at, expires_at)
    SELECT s.namespace, s.resource, s.asked_id, s.asked_by, s.asked_metadata, s.asked_ms,
      greatest(${floorOf("s")}, c.token), c.now, ${afterMs("s.asked_ms")}
    FROM seen s CROSS JOIN clock c
    WHERE s.lease_id IS NULL AND (SELECT count(*) FROM granted) >= 0
    ON CONFLICT (namespace, resource) DO NOTHING
    RETURNING l.namespace, l.resource, l.lease_id, l.token, l.ttl_ms, l.expires_at
  ),
  above AS MATERIALIZED (
    SELECT leasehold.above_floor(x.namespace, min(x.token)) FROM created x GROUP BY x.namespace
  ),
  outcome AS (
    SELECT x.n, x.namespace, x.resource, x.asked_id, x.asked_by, x.queue_ms, 'acquired' AS status,
      x.new_token AS token, x.asked_ms AS ttl_ms, x.new_expires_at AS expires_at,
      x.holder, x.lease_id, NULL::int AS ahead, x.token AS old_token, x.ttl_ms AS old_ttl_ms,
      coalesce(x.ended, 'expired') AS old_state, x.granted_at AS old_granted_at,
      x.renewed_at AS old_renewed_at, x.expires_at AS old_expires_at, x.metadata AS old_metadata
    FROM granted x
    UNION ALL
    SELECT NULL, x.namespace, x.resource, x.lease_id, NULL, 0, 'acquired',
      x.token, x.ttl_ms, x.expires_at,
      NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM created x WHERE (SELECT count(*) FROM above) >= 0
    UNION ALL
    SELECT s.n, s.namespace, s.resource, s.asked_id, s.asked_by, s.queue_ms,
      CASE WHEN s.lease_id <> s.asked_id THEN 'held' WHEN ${isLive("s")} THEN 'acquired'
        ELSE 'ended' END,
      s.token, s.ttl_ms,
      -- When the caller's turn comes, if it waits.
      CASE WHEN s.lease_id <> s.asked_id AND (s.queue_ms > 0 OR NOT ${excludes("s")})
        THEN s.expires_at + s.turns ELSE s.expires_at END,
      CASE WHEN ${excludes("s")} THEN s.holder ELSE ${FIRST_IN_LINE} END,
      CASE WHEN ${excludes("s")} THEN s.lease_id END,
      CASE WHEN s.queue_ms > 0 OR NOT ${excludes("s")} THEN s.ahead END,
      NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM seen s CROSS JOIN clock c
    WHERE s.lease_id = s.asked_id OR ${excludes("s")} OR ${isKept("s", "s.turns")}
  )${more}
SELECT o.n::int AS n, CASE WHEN o.n IS NULL THEN o.namespace END AS namespace,
  CASE WHEN o.n IS NULL THEN o.resource END AS resource, o.status, o.token, o.ttl_ms AS "ttlMs",
  ${untilMs("o.expires_at")} AS "remainingMs", ${epochMs("o.expires_at")} AS "expiresAt",
  o.holder, ${grantId("o")} AS "grantId", o.ahead, o.old_token AS "oldToken",
  o.old_ttl_ms AS "oldTtlMs", o.old_state AS "oldState", ${epochMs("o.old_granted_at")} AS "oldGrantedAt",
  ${epochMs("o.old_renewed_at")} AS "oldRenewedAt", ${epochMs("o.old_expires_at")} AS "oldExpiresAt",
  o.old_metadata AS "oldMetadata"
FROM outcome o CROSS JOIN clock c`;

/** Values: namespaces, resources, leaseIds, holders, ttlMs, queueMs, metadata. */
export const ACQUIRE = acquire(false, "");
/**
 * The same for batches in which somebody waits: leaves the tickets of those who were refused, and
 * forgets those who were served and who were passed over. Apart, because the plan of a statement costs
 * time, and most batches have no such request.
 */
export const ACQUIRE_OR_WAIT = acquire(
  true,
  `,
  noted AS (
    INSERT INTO leasehold.waiter AS w (namespace, resource, lease_id, holder, expires_at)
    SELECT o.namespace, o.resource, o.asked_id, o.asked_by,
      ${afterMs(`least(o.queue_ms, ${queue.LONGEST_TICKET_MS})`)}
    FROM outcome o CROSS JOIN clock c
    WHERE o.status = 'held' AND o.queue_ms > 0 AND NOT EXISTS (
      -- Noted for long enough: who asks often need not write each time.
      SELECT FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", "o")} AND w.lease_id = o.asked_id
        AND w.expires_at > ${afterMs(`least(o.queue_ms, ${queue.LONGEST_TICKET_MS}) / 2`)}
    )
    ORDER BY o.namespace COLLATE "C", o.resource COLLATE "C", o.asked_id COLLATE "C"
    ON CONFLICT (namespace, resource, lease_id) DO UPDATE
      SET expires_at = greatest(w.expires_at, excluded.expires_at)
    RETURNING 1
  ),
  waiting AS MATERIALIZED (
    SELECT w.namespace, w.resource, w.lease_id FROM outcome o
      JOIN leasehold.waiter own ON ${SAME_KEY("own", "o")} AND own.lease_id = o.asked_id
      JOIN leasehold.waiter w ON ${SAME_KEY("w", "o")} AND w.place <= own.place
    WHERE o.status = 'acquired' AND (SELECT count(*) FROM noted) >= 0
    FOR UPDATE OF w SKIP LOCKED
  ),
  served AS (
    DELETE FROM leasehold.waiter w USING waiting o
    WHERE ${SAME_KEY("w", "o")} AND w.lease_id = o.lease_id
    RETURNING 1
  )`,
);

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
