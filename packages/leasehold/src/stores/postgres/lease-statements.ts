/**
 * The statements of the lease store but those that acquire, which lease-acquire-statements.ts has. Each decides a batch of
 * requests on different keys by the rules in core/rules.ts, and commits by itself.
 *
 *   seen ───────────────────────── the outcomes that a plain read decides: held, ended, taken ...
 *    └─ locked ─────────────────── rows that may change, in key order
 *         └─ granted, renewed ... ─ decided on the locked row version
 *
 * - No statement waits for a row lock: SKIP LOCKED. A request that the read did not decide and whose
 *   row could not be locked gets no row; the caller retries it with a new read.
 * - Existing rows are locked in key order before any insert, and new rows are inserted in the same
 *   order: concurrent batches cannot deadlock.
 * - Time is clock_timestamp(), read once per statement. Not now(), which is when the transaction began.
 *   A lock is granted at once or not at all, so the time is fresh when it is used.
 * - Tokens are computed from the locked row: larger than the last one and all collected ones, and at
 *   least the clock in microseconds. So they keep growing if a table is lost and recreated.
 * - Data-modifying parts run in the order of their references, hence the
 *   `(SELECT count(*) ...) >= 0`.
 * - Each part passes on all columns that later parts need. Joins between parts would be planned for few
 *   rows and compare all pairs. Instead a row is looked up by its key, then by its physical position.
 *
 * Names: c the clock, s a request with the row as seen, k as locked, x as changed. Columns of the
 * request are called asked_..., those of the row have the row's names. Times go out as milliseconds
 * since 1970.
 */
import {
  CLOCK,
  epochMs,
  excludes,
  isLive,
  lockedWhere,
  SAME_PLACE,
  seenFor,
  untilMs,
} from "./lease-rows.js";
import { afterMs, SAME_KEY } from "./sql-parts.js";
import { PASSED_ON, wakeFirst } from "./wait-queue.js";

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

/** Releases grants, and removes waiters. Values: namespaces, resources, leaseIds. */
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
  ${PASSED_ON}
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

/**
 * Deletes old ended leases in key order, one chunk per statement, and raises the token floor
 * accordingly. Values: olderThanMs, the namespace and resource to resume after, limit.
 */
export const COLLECT = `
WITH ${CLOCK},
  old AS MATERIALIZED (
    SELECT l.namespace, l.resource, l.token FROM leasehold.lease l CROSS JOIN clock c
    WHERE (l.namespace, l.resource) > ($2, $3)
      AND NOT ${excludes("l")} AND NOT l.paused AND l.expires_at <= ${afterMs("-($1::float8)")}
    ORDER BY l.namespace, l.resource
    LIMIT $4::int
    FOR UPDATE OF l SKIP LOCKED
  ),
  raised AS (
    INSERT INTO leasehold.token_floor AS f (namespace, token)
    SELECT o.namespace, max(o.token) FROM old o GROUP BY o.namespace ORDER BY o.namespace
    ON CONFLICT (namespace) DO UPDATE SET token = greatest(f.token, excluded.token)
    RETURNING 1
  ),
  deleted AS (
    DELETE FROM leasehold.lease l USING old o
    WHERE ${SAME_KEY("l", "o")} AND (SELECT count(*) FROM raised) >= 0
    RETURNING l.namespace, l.resource
  )
SELECT namespace, resource FROM deleted ORDER BY namespace, resource`;
