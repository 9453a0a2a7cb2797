/**
 * The statements of the lease store: each decides a batch of requests on different keys, by the
 * rules in lease/rules.ts, in one statement that commits by itself.
 *
 *   input ─ seen ──────────────── decides what a plain read can decide: held, ended, taken ...
 *             └─ locked ───────── rows that may change, in the order of their keys
 *                  └─ changed ─── decided on the locked version of the row
 *
 * - Nothing waits for a row that somebody has locked: SKIP LOCKED. A request whose row was neither
 *   decided by the read nor locked answers `undecided`; the caller asks once more, by a new read.
 * - Rows are locked in one order of keys before anything is changed, new rows are inserted in the
 *   same order after that: concurrent batches cannot deadlock.
 * - Time is clock_timestamp(), read once per statement. Not now(): that is when the transaction
 *   began. A lock is got at once or not at all, so that the time is not stale when it is used.
 * - Tokens are computed from the locked row. Larger than the last one, than all collected ones, and
 *   at least the clock in microseconds, which keeps them growing if a table is lost and made anew.
 * - Data-modifying parts run in the order in which they refer to each other, hence the
 *   `(SELECT count(*) ...) >= 0`.
 *
 * Names: c the clock, i the input, s or r the row as seen, k as locked, x as changed.
 */
import { type LeaseState, queue } from "../../lease/index.js";
import { CHANNEL } from "./backend.js";

/** Milliseconds from the statement's time until then. */
export const untilMs = (time: string) => `(extract(epoch FROM ${time} - c.now) * 1000)::float8`;
export const afterMs = (ms: string) => `c.now + ${ms} * interval '1 millisecond'`;
export const iso = (time: string) =>
  `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
/** `grantIdOf`: lease ids do not leave the database. */
export const grantId = (row: string) =>
  `left(encode(sha256(convert_to(${row}.lease_id, 'UTF8')), 'hex'), 16)`;

/** `rules.isLive` and `rules.excludes`. */
export const isLive = (row: string) => `(${row}.ended IS NULL AND ${row}.expires_at > c.now)`;
export const excludes = (row: string) =>
  `(${row}.ended IS DISTINCT FROM 'released' AND ${row}.expires_at > c.now)`;

export const CLOCK = "clock AS MATERIALIZED (SELECT clock_timestamp() AS now)";
export const SAME_KEY = (a: string, b: string) =>
  `${a}.namespace = ${b}.namespace AND ${a}.resource = ${b}.resource`;
const CLOCK_TOKEN = "(extract(epoch FROM c.now) * 1000000)::bigint";

/** Wakes the first in line for the key; nobody is told where nobody waits. */
const wakeFirst = (row: string, which = "true") => `(
    SELECT pg_notify('${CHANNEL}', json_build_array('lease', f.namespace, f.resource, f.wakes)::text)::text
    FROM (
      SELECT w.namespace, w.resource, ${grantId("w")} AS wakes FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", row)} AND w.expires_at > c.now AND ${which}
      ORDER BY w.place LIMIT 1
    ) f
  )`;

/**
 * The line before each request, where there is one: how many, and who is the first. What is free is
 * kept for them as lease/queue.ts says.
 */
const lineBefore = (which: string) => `
  line AS MATERIALIZED (
    SELECT s.n, count(*)::int AS ahead, (array_agg(w.holder ORDER BY w.place))[1] AS first,
      least(count(*), ${queue.MOST_AWAITED}) * interval '${queue.RESERVED_MS} milliseconds' AS turns
    FROM seen s JOIN input i ON i.n = s.n CROSS JOIN clock c
      JOIN leasehold.waiter w ON ${SAME_KEY("w", "s")} AND w.expires_at > c.now
      LEFT JOIN leasehold.waiter own ON ${SAME_KEY("own", "s")}
        AND own.lease_id = i.lease_id AND own.expires_at > c.now
    WHERE (own.place IS NULL OR w.place < own.place) AND s.lease_id <> i.lease_id AND ${which}
    GROUP BY s.n
  )`;
/** A clock that was set back reserves nothing. */
const isKept = (row: string) =>
  `coalesce(c.now >= ${row}.expires_at AND c.now < ${row}.expires_at + q.turns, false)`;

/** The batch as rows numbered from 1, and what a plain read says about their keys. */
export const inputAndSeen = (columns: readonly (readonly [name: string, type: string])[]) => `
  input AS MATERIALIZED (
    SELECT * FROM unnest(${columns.map(([, type], at) => `$${at + 1}::${type}[]`).join(", ")})
      WITH ORDINALITY AS i (${columns.map(([name]) => name).join(", ")}, n)
  ),
  seen AS MATERIALIZED (
    SELECT i.n, l.* FROM input i JOIN leasehold.lease l ON ${SAME_KEY("l", "i")}
  )`;

/** Only rows that are as `condition` says, also in the version that is then locked. */
const lockedWhere = (condition: string) => `
  locked AS MATERIALIZED (
    SELECT i.n, l.* FROM input i JOIN leasehold.lease l ON ${SAME_KEY("l", "i")} CROSS JOIN clock c
    WHERE ${condition}
    ORDER BY l.namespace, l.resource
    FOR NO KEY UPDATE OF l SKIP LOCKED
  )`;

export interface ViewRow {
  readonly namespace: string;
  readonly resource: string;
  readonly holder: string;
  readonly grantId: string;
  readonly token: number;
  readonly state: LeaseState;
  readonly ttlMs: number;
  readonly remainingMs: number;
  readonly grantedAt: string;
  readonly renewedAt: string | null;
  readonly expiresAt: string;
  readonly metadata: string | null;
}

export interface AcquireRow {
  readonly status: "acquired" | "held" | "ended" | "undecided";
  readonly token: number;
  readonly ttlMs: number;
  readonly remainingMs: number;
  readonly expiresAt: string;
  readonly holder: string;
  readonly grantId: string | null;
  readonly ahead: number | null;
  /** The ended grant whose row became that of the new one. */
  readonly replaced: string | null;
}
/** What `replaced` says as JSON. */
export type ReplacedRow = Omit<ViewRow, "namespace" | "resource" | "remainingMs">;

const acquire = (waits: boolean, more: string) => `
WITH ${CLOCK},
  ${inputAndSeen([
    ["namespace", "text"],
    ["resource", "text"],
    ["lease_id", "text"],
    ["holder", "text"],
    ["ttl_ms", "int"],
    ["queue_ms", "int"],
    ["metadata", "text"],
  ])},
  ${lineBefore(waits ? "true" : `NOT ${excludes("s")}`)},
  ${lockedWhere(`l.lease_id <> i.lease_id AND NOT ${excludes("l")}`)},
  granted AS (
    UPDATE leasehold.lease l SET
      lease_id = i.lease_id, holder = i.holder, metadata = i.metadata, ttl_ms = i.ttl_ms,
      token = greatest(k.token + 1, f.token + 1, ${CLOCK_TOKEN}),
      granted_at = c.now, renewed_at = NULL, expires_at = ${afterMs("i.ttl_ms")}, ended = NULL
    FROM locked k JOIN input i ON i.n = k.n LEFT JOIN line q ON q.n = k.n
      LEFT JOIN leasehold.token_floor f ON f.namespace = k.namespace CROSS JOIN clock c
    WHERE ${SAME_KEY("l", "k")} AND NOT ${isKept("k")}
    RETURNING l.namespace, l.resource, l.token
  ),
  created AS (
    INSERT INTO leasehold.lease AS l
      (namespace, resource, lease_id, holder, metadata, ttl_ms, token, granted_at, expires_at)
    SELECT i.namespace, i.resource, i.lease_id, i.holder, i.metadata, i.ttl_ms,
      greatest(f.token + 1, ${CLOCK_TOKEN}), c.now, ${afterMs("i.ttl_ms")}
    FROM input i LEFT JOIN leasehold.token_floor f ON f.namespace = i.namespace
      CROSS JOIN clock c
    WHERE NOT EXISTS (SELECT FROM seen s WHERE s.n = i.n) AND (SELECT count(*) FROM granted) >= 0
    ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C"
    ON CONFLICT (namespace, resource) DO NOTHING
    RETURNING l.namespace, l.resource, l.token
  ),
  above AS MATERIALIZED (
    SELECT leasehold.above_floor(x.namespace, min(x.token)) FROM created x GROUP BY x.namespace
  ),
  fresh AS (
    SELECT * FROM granted
    UNION ALL SELECT * FROM created WHERE (SELECT count(*) FROM above) >= 0
  ),
  outcome AS MATERIALIZED (
    SELECT i.n, i.namespace, i.resource, i.lease_id AS asked_id, i.queue_ms, i.holder AS asked_by,
      CASE
        WHEN x.token IS NOT NULL THEN 'acquired'
        WHEN r.lease_id = i.lease_id THEN CASE WHEN ${isLive("r")} THEN 'acquired' ELSE 'ended' END
        WHEN ${excludes("r")} OR ${isKept("r")} THEN 'held'
        ELSE 'undecided'
      END AS status,
      coalesce(x.token, r.token) AS token,
      CASE WHEN x.token IS NULL THEN r.ttl_ms ELSE i.ttl_ms END AS ttl_ms,
      CASE
        WHEN x.token IS NOT NULL THEN ${afterMs("i.ttl_ms")}
        -- When the caller's turn comes, if it waits.
        WHEN r.lease_id <> i.lease_id AND (i.queue_ms > 0 OR NOT ${excludes("r")})
          THEN r.expires_at + coalesce(q.turns, interval '0')
        ELSE r.expires_at
      END AS expires_at,
      CASE WHEN ${excludes("r")} THEN r.holder ELSE q.first END AS holder,
      CASE WHEN ${excludes("r")} THEN r.lease_id END AS lease_id,
      CASE WHEN i.queue_ms > 0 OR NOT ${excludes("r")} THEN coalesce(q.ahead, 0) END AS ahead
    FROM input i CROSS JOIN clock c
      LEFT JOIN seen r ON r.n = i.n
      LEFT JOIN line q ON q.n = i.n
      LEFT JOIN fresh x ON ${SAME_KEY("x", "i")}
  )${more}
SELECT o.status, o.token::float8 AS token, o.ttl_ms AS "ttlMs",
  ${untilMs("o.expires_at")} AS "remainingMs", ${iso("o.expires_at")} AS "expiresAt",
  o.holder, ${grantId("o")} AS "grantId", o.ahead,
  CASE WHEN k.n IS NOT NULL THEN json_build_object(
    'holder', k.holder, 'grantId', ${grantId("k")}, 'token', k.token, 'ttlMs', k.ttl_ms,
    'state', coalesce(k.ended, 'expired'), 'grantedAt', ${iso("k.granted_at")},
    'renewedAt', ${iso("k.renewed_at")}, 'expiresAt', ${iso("k.expires_at")}, 'metadata', k.metadata
  ) END AS replaced
FROM outcome o CROSS JOIN clock c LEFT JOIN locked k ON k.n = o.n
ORDER BY o.n`;

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
  readonly status: "renewed" | "lost" | "undecided";
  readonly reason: "expired" | "revoked" | "taken" | "gone";
  readonly token: number;
  readonly ttlMs: number;
  readonly remainingMs: number;
  readonly expiresAt: string;
}

/** Values: namespaces, resources, leaseIds, ttlMs. */
export const RENEW = `
WITH ${CLOCK},
  ${inputAndSeen([
    ["namespace", "text"],
    ["resource", "text"],
    ["lease_id", "text"],
    ["ttl_ms", "int"],
  ])},
  ${lockedWhere("l.lease_id = i.lease_id AND l.ended IS NULL")},
  renewed AS (
    UPDATE leasehold.lease l SET ttl_ms = i.ttl_ms, renewed_at = c.now,
      expires_at = greatest(k.expires_at, ${afterMs("i.ttl_ms")})
    FROM locked k JOIN input i ON i.n = k.n CROSS JOIN clock c
    WHERE ${SAME_KEY("l", "k")} AND ${isLive("k")}
    RETURNING k.n, l.token, l.ttl_ms, l.expires_at
  )
SELECT
  CASE
    WHEN x.n IS NOT NULL THEN 'renewed'
    WHEN k.n IS NOT NULL OR s.n IS NULL OR s.lease_id <> i.lease_id OR s.ended IS NOT NULL THEN 'lost'
    ELSE 'undecided'
  END AS status,
  CASE
    WHEN k.n IS NOT NULL THEN 'expired'
    WHEN s.lease_id <> i.lease_id THEN 'taken'
    WHEN s.ended = 'revoked' THEN 'revoked'
    ELSE 'gone'
  END AS reason,
  x.token::float8 AS token, x.ttl_ms AS "ttlMs", ${untilMs("x.expires_at")} AS "remainingMs", ${iso("x.expires_at")} AS "expiresAt"
FROM input i CROSS JOIN clock c
  LEFT JOIN seen s ON s.n = i.n LEFT JOIN locked k ON k.n = i.n LEFT JOIN renewed x ON x.n = i.n
ORDER BY i.n`;

export interface ReleaseRow {
  readonly status: "released" | "notHeld" | "undecided";
}

/** Gives up grants, and places in line. Values: namespaces, resources, leaseIds. */
export const RELEASE = `
WITH ${CLOCK},
  ${inputAndSeen([
    ["namespace", "text"],
    ["resource", "text"],
    ["lease_id", "text"],
  ])},
  ${lockedWhere("l.lease_id = i.lease_id AND l.ended IS DISTINCT FROM 'released'")},
  released AS (
    UPDATE leasehold.lease l SET ended = 'released', expires_at = c.now
    FROM locked k CROSS JOIN clock c
    WHERE ${SAME_KEY("l", "k")} AND ${excludes("k")}
    RETURNING k.n, l.namespace, l.resource
  ),
  ticket AS MATERIALIZED (
    SELECT i.n, w.namespace, w.resource, w.lease_id, w.place FROM input i
      JOIN leasehold.waiter w ON ${SAME_KEY("w", "i")} AND w.lease_id = i.lease_id
    FOR UPDATE OF w SKIP LOCKED
  ),
  withdrawn AS (
    DELETE FROM leasehold.waiter w USING ticket t
    WHERE ${SAME_KEY("w", "t")} AND w.lease_id = t.lease_id
    RETURNING t.n, t.namespace, t.resource, t.place
  )
SELECT
  CASE
    WHEN x.n IS NOT NULL THEN 'released'
    WHEN k.n IS NOT NULL OR s.n IS NULL OR s.lease_id <> i.lease_id THEN 'notHeld'
    WHEN s.ended = 'released' THEN 'released'
    ELSE 'undecided'
  END AS status,
  CASE
    WHEN x.n IS NOT NULL THEN ${wakeFirst("x")}
    -- What was kept for this one is kept for the next.
    WHEN t.n IS NOT NULL AND NOT coalesce(${excludes("s")}, false) THEN ${wakeFirst("t", "w.place > t.place")}
  END AS woken
FROM input i CROSS JOIN clock c
  LEFT JOIN seen s ON s.n = i.n LEFT JOIN locked k ON k.n = i.n LEFT JOIN released x ON x.n = i.n
  LEFT JOIN withdrawn t ON t.n = i.n
ORDER BY i.n`;

export interface RevokeRow {
  readonly status: "revoked" | "notHeld" | "otherToken" | "undecided";
  readonly token: number;
  readonly freeInMs: number;
}

/** Values: namespaces, resources, expectedTokens (null: any), whether to free now. */
export const REVOKE = `
WITH ${CLOCK},
  ${inputAndSeen([
    ["namespace", "text"],
    ["resource", "text"],
    ["expected", "float8"],
    ["free_now", "bool"],
  ])},
  ${lockedWhere(`${excludes("l")} AND coalesce(l.token = i.expected, true)`)},
  revoked AS (
    UPDATE leasehold.lease l SET ended = 'revoked',
      expires_at = CASE WHEN i.free_now THEN c.now ELSE k.expires_at END
    FROM locked k JOIN input i ON i.n = k.n CROSS JOIN clock c
    WHERE ${SAME_KEY("l", "k")}
    RETURNING k.n, l.namespace, l.resource, l.token, l.expires_at, i.free_now
  )
SELECT
  CASE
    WHEN x.n IS NOT NULL THEN 'revoked'
    WHEN s.n IS NULL OR NOT ${excludes("s")} THEN 'notHeld'
    WHEN s.token <> i.expected THEN 'otherToken'
    ELSE 'undecided'
  END AS status,
  x.token::float8 AS token, ${untilMs("x.expires_at")} AS "freeInMs",
  CASE WHEN x.free_now THEN ${wakeFirst("x")} END AS woken
FROM input i CROSS JOIN clock c
  LEFT JOIN seen s ON s.n = i.n LEFT JOIN revoked x ON x.n = i.n
ORDER BY i.n`;
