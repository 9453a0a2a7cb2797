/**
 * The lean statements where callers wait: the first waiter takes a free resource, the others join the queue, and a release wakes
 * the next one. The rules decide what they leave: the answers to those that wait, and releases of what is not held, or by a holder that waits itself, as a lost answer may have left it.
 */
import { invariant, isoTime } from "../../env/index.js";
import {
  type AcquireOutcome,
  type AcquireRequest,
  LONGEST_WAITER_MS,
  type ReleaseOutcome,
  type ReleaseRequest,
  viewOf,
} from "../../lease/index.js";
import type { Loaded } from "../../store-kit/index.js";
import { keyColumns } from "./keys.js";
import { type LeanLeases, NOTHING_LOADED } from "./lease-lean-outcomes.js";
import {
  type LoadedQueueRow,
  loadedOf,
  loadStatement,
  recordOf,
  type Version,
} from "./lease-load.js";
import { AWAITED_CLOCK, excludes, KEY } from "./lease-rows.js";
import { afterMs, type Columns, SAME_KEY, unnested } from "./sql-parts.js";
import { listOf } from "./statement.js";
import { safeToken, termOf } from "./views.js";
import { COMES_AGAIN, PLACE_OF, wakeFirst } from "./wait-queue.js";

const inOrder = (columns: Columns) =>
  `(SELECT * FROM ${unnested(columns)} ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C") i`;
const GRANT: Columns = [...KEY, ["asked_id", "text"]];
const ACQUIRE: Columns = [
  ...GRANT,
  ["asked_by", "text"],
  ["asked_ms", "int"],
  ["asked_metadata", "text"],
  ["queue_ms", "float8"],
];

/** Values: those of ACQUIRE. */
const ACQUIRE_OR_JOIN = loadStatement({
  hasQueue: true,
  with: `,
  asked AS MATERIALIZED (SELECT * FROM ${inOrder(ACQUIRE)}),
  locked AS MATERIALIZED (
    SELECT i.*, k.* FROM asked i CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.token FROM leasehold.lease l
      WHERE ${SAME_KEY("l", "i")} AND l.lease_id <> i.asked_id AND NOT ${excludes("l")} AND NOT l.paused
        AND (NOT c.is_awaited OR coalesce((
          SELECT w.lease_id FROM leasehold.waiter w
          WHERE ${SAME_KEY("w", "l")} AND w.expires_at > c.now ORDER BY w.place LIMIT 1
        ) = i.asked_id, true))
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
  ),
  granted AS (
    UPDATE leasehold.lease l SET
      lease_id = k.asked_id, holder = k.asked_by, metadata = k.asked_metadata, ttl_ms = k.asked_ms,
      token = greatest(k.token + 1, c.token, (
        SELECT f.token + 1 FROM leasehold.token_floor f WHERE f.namespace = k.namespace
      )),
      granted_at = c.now, renewed_at = NULL, expires_at = ${afterMs("k.asked_ms")}, ended = NULL
    FROM locked k CROSS JOIN clock c WHERE l.ctid = k.at
    RETURNING k.n, l.namespace, l.resource, l.lease_id, l.token
  ),
  leaving AS MATERIALIZED (
    SELECT w.namespace, w.resource, w.lease_id FROM granted x
      JOIN leasehold.waiter w ON ${SAME_KEY("w", "x")} AND w.lease_id = x.lease_id
    -- A waiter that another statement adds or extends right now stays.
    FOR UPDATE OF w SKIP LOCKED
  ),
  gone AS (
    DELETE FROM leasehold.waiter w USING leaving o
    WHERE ${SAME_KEY("w", "o")} AND w.lease_id = o.lease_id
  ),
  joined AS (
    INSERT INTO leasehold.waiter AS w (namespace, resource, lease_id, holder, expires_at, place)
    OVERRIDING SYSTEM VALUE
    SELECT i.namespace, i.resource, i.asked_id, i.asked_by, ${afterMs(`least(i.queue_ms, ${LONGEST_WAITER_MS})`)}, ${PLACE_OF("i.n")}
    FROM asked i CROSS JOIN clock c JOIN leasehold.lease l ON ${SAME_KEY("l", "i")}
    -- The rules decide on what may be this caller's already.
    WHERE i.queue_ms > 0 AND l.lease_id <> i.asked_id
      AND NOT EXISTS (SELECT FROM granted g WHERE g.n = i.n)
    ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C"
    ${COMES_AGAIN}
    RETURNING w.namespace, w.resource
  )`,
  column: ", g.token AS granted, j.resource IS NOT NULL AS joined",
  join: ` LEFT JOIN granted g ON g.n = i.n LEFT JOIN joined j ON ${SAME_KEY("j", "i")}`,
  needsQueue: "g.n IS NULL",
});

interface AnswerRow extends LoadedQueueRow {
  /** The token of the grant, and the row as it was before; null: the key was loaded. */
  readonly granted: number | null;
  /** Whether its position was added, or stays for longer. */
  readonly joined: boolean;
}

/**
 * Grants what is free to the first of its waiters, or to any caller where there is none. The others join the queue, and their
 * keys are loaded.
 */
export function acquireOrJoin(
  batch: readonly AcquireRequest[],
  returnReplaced: boolean,
): LeanLeases<AcquireOutcome> {
  return {
    text: ACQUIRE_OR_JOIN,
    values: [
      ...keyColumns(batch),
      batch.map(({ leaseId }) => leaseId),
      batch.map(({ holder }) => holder),
      batch.map(({ ttlMs }) => ttlMs),
      batch.map(({ metadata = null }) => metadata),
      batch.map(({ queueMs = 0 }) => queueMs),
    ],
    answersOf(rows) {
      const outcomes = new Array<AcquireOutcome | null>(batch.length).fill(null);
      const loaded = new Array<Loaded<Version> | null>(batch.length).fill(null);
      const joined = new Array<boolean>(batch.length).fill(false);
      const nowMs = (Number(rows[0]?.now) || 0) / 1_000;
      for (const row of rows as readonly unknown[] as readonly AnswerRow[]) {
        const { n, granted } = row;
        const request = batch[n - 1];
        invariant(request, "answers to requests");
        if (granted === null) {
          loaded[n - 1] = loadedOf(row);
          joined[n - 1] = row.joined;
          continue;
        }
        const { ttlMs } = request;
        const term = termOf({ ttlMs, remainingMs: ttlMs, expiresAt: nowMs + ttlMs });
        const before = returnReplaced ? recordOf(row) : null;
        outcomes[n - 1] = {
          status: "acquired",
          token: safeToken(granted),
          ...term,
          ...(before && { replaced: viewOf(request, before, nowMs, isoTime) }),
        };
      }
      return { nowMs, outcomes, loaded, joined };
    },
  };
}

/** Values: namespaces, resources, leaseIds. */
const RELEASE_AND_WAKE = `
WITH ${AWAITED_CLOCK},
  locked AS MATERIALIZED (
    SELECT i.n, k.* FROM ${unnested(GRANT)} CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at FROM leasehold.lease l
      WHERE ${SAME_KEY("l", "i")} AND l.lease_id = i.asked_id AND ${excludes("l")}
        AND NOT (c.is_awaited AND EXISTS (
          SELECT FROM leasehold.waiter w WHERE ${SAME_KEY("w", "l")} AND w.lease_id = i.asked_id
        ))
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
  ),
  released AS (
    UPDATE leasehold.lease l SET ended = 'released', expires_at = c.now
    FROM locked k CROSS JOIN clock c WHERE l.ctid = k.at
    RETURNING k.n, CASE WHEN c.is_awaited THEN ${wakeFirst("l")} END AS woken
  )
SELECT string_agg(x.n::text, ',') AS released FROM released x`;

export function releaseAndWake(batch: readonly ReleaseRequest[]): LeanLeases<ReleaseOutcome> {
  return {
    text: RELEASE_AND_WAKE,
    values: [...keyColumns(batch), batch.map(({ leaseId }) => leaseId)],
    answersOf([row]) {
      const { released } = row as { released: string | null };
      const outcomes = new Array<ReleaseOutcome | null>(batch.length).fill(null);
      for (const n of listOf(released)) outcomes[Number(n) - 1] = { status: "released" };
      return { ...NOTHING_LOADED, outcomes };
    },
  };
}
