/** The statements that grant leases; lease-statements.ts describes how they work. */
import { type LeaseState, PAUSED_HOLDER } from "../../core/index.js";
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
import { afterMs, type Columns, grantId } from "./sql-parts.js";
import { FIRST_WAITER, seenInTurn, WAITING, waitersBefore } from "./wait-queue.js";

export interface AcquireRow {
  /** Null for a new row, which is identified by its key. */
  readonly n: number | null;
  readonly namespace: string | null;
  readonly resource: string | null;
  readonly status: "acquired" | "held" | "ended";
  readonly token: number;
  readonly ttlMs: number;
  /** Null if the resource is paused. */
  readonly remainingMs: number | null;
  readonly expiresAt: number;
  /** The current holder, or the holder of the replaced grant. Null for a new row. */
  readonly holder: string;
  readonly grantId: string | null;
  readonly ahead: number | null;
  /** The grant id of the replaced grant. */
  readonly oldToken: number | null;
  readonly oldTtlMs: number;
  readonly oldState: LeaseState;
  readonly oldGrantedAt: number;
  readonly oldRenewedAt: number | null;
  readonly oldExpiresAt: number;
  readonly oldMetadata: string | null;
}

/** If the clock was set back, no position is reserved. */
const isKept = (row: string, turns: string) =>
  `(c.now >= ${row}.expires_at AND c.now < ${row}.expires_at + ${turns})`;
const IS_PAUSED = "(s.paused AND s.lease_id <> s.asked_id)";
const floorOf = (row: string) =>
  `(SELECT f.token + 1 FROM leasehold.token_floor f WHERE f.namespace = ${row}.namespace)`;

/** Whether the row, as seen or as locked, may be granted to the request `asked`. */
const mayHave = (row: string, asked: string) =>
  `${row}.lease_id <> ${asked}.asked_id AND NOT ${excludes(row)} AND NOT ${isKept(row, `${asked}.turns`)}
        AND NOT ${row}.paused`;
const COLUMNS: Columns = [
  ["asked_id", "text"],
  ["asked_by", "text"],
  ["asked_ms", "int"],
  ["queue_ms", "int"],
  ["asked_metadata", "text"],
];

/** The outcomes decided by a plain read, which suffices for most batches. */
const seenAndLocked = (seen: string) => `${seen},
  ${lockedWhere(
    "s.namespace, s.resource, s.asked_id, s.asked_by, s.asked_ms, s.queue_ms, s.asked_metadata",
    (row) => mayHave(row, "s"),
  )}`;

const UNSEEN = `seen s CROSS JOIN clock c
    WHERE s.lease_id IS NULL AND (SELECT count(*) FROM granted) >= 0`;
const DECIDED = `
    UNION ALL
    SELECT s.n, s.namespace, s.resource, s.asked_id, s.asked_by, s.queue_ms,
      CASE WHEN s.lease_id <> s.asked_id THEN 'held' WHEN ${isLive("s")} THEN 'acquired'
        ELSE 'ended' END,
      s.token, s.ttl_ms,
      -- When the resource is free for the caller, if it waits; the end of a pause is unknown.
      CASE WHEN ${IS_PAUSED} THEN NULL WHEN s.lease_id <> s.asked_id AND (s.queue_ms > 0 OR NOT ${excludes("s")})
        THEN s.expires_at + s.turns ELSE s.expires_at END,
      CASE WHEN ${IS_PAUSED} THEN '${PAUSED_HOLDER}' WHEN ${excludes("s")} THEN s.holder
        ELSE ${FIRST_WAITER} END,
      CASE WHEN ${excludes("s")} AND NOT ${IS_PAUSED} THEN s.lease_id END,
      CASE WHEN s.queue_ms > 0 OR NOT (${excludes("s")} OR ${IS_PAUSED}) THEN s.ahead END,
      NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM seen s CROSS JOIN clock c
    WHERE s.lease_id = s.asked_id OR ${excludes("s")} OR ${isKept("s", "s.turns")} OR ${IS_PAUSED}`;

interface Parts {
  /** The SQL of `locked`. */
  readonly locked: string;
  /** Selects the requests s without a row. */
  readonly fresh: string;
  /** Selects the outcomes that need no change. */
  readonly decided: string;
  readonly more: string;
}
const acquire = ({ locked, fresh, decided, more }: Parts) => `
WITH ${CLOCK},
  ${locked},
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
    FROM ${fresh}
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
    FROM created x WHERE (SELECT count(*) FROM above) >= 0${decided}
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
export const ACQUIRE = acquire({
  locked: seenAndLocked(seenFor(COLUMNS, waitersBefore(`NOT ${excludes("s")}`))),
  fresh: UNSEEN,
  decided: DECIDED,
  more: "",
});
const WAITS = `,
  ${WAITING}`;
/**
 * The statement for batches with waiters. It adds a waiter for each refused request, and deletes the
 * waiters that were served or passed over. It is separate because planning costs time, and most batches
 * have no such request.
 */
export const ACQUIRE_OR_WAIT = acquire({
  locked: seenAndLocked(seenFor(COLUMNS, waitersBefore("true"))),
  fresh: UNSEEN,
  decided: DECIDED,
  more: WAITS,
});
/**
 * The statement for batches in which several requests contend for a key, of which some wait. It takes them
 * all, with different lease ids. It is separate because the order within each key costs time.
 */
export const ACQUIRE_CONTENDED = acquire({
  locked: seenAndLocked(seenInTurn(COLUMNS, mayHave("i", "i"))),
  fresh: UNSEEN,
  decided: DECIDED,
  more: WAITS,
});
