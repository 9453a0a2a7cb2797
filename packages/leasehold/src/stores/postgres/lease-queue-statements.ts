/**
 * The fast statements where callers wait: the first waiter takes a free resource, and a release wakes the next one. The rules
 * decide what they leave: a waiter that is not the first, and a release by a lease id that waits itself.
 */
import type {
  AcquireOutcome,
  AcquireRequest,
  ReleaseOutcome,
  ReleaseRequest,
} from "../../core/index.js";
import type { Loaded } from "../../store-kit/index.js";
import { keyColumns } from "./keys.js";
import { type LoadedQueueRow, loadedOf, loadStatement, type Version } from "./lease-load.js";
import { excludes, KEY } from "./lease-rows.js";
import { afterMs, type Columns, SAME_KEY, unnested } from "./sql-parts.js";
import { type FastStatement, type LeanStatement, listOf } from "./statement.js";
import { safeToken, termOf } from "./views.js";
import { ANY_WAITER, wakeFirst } from "./wait-queue.js";

const inOrder = (columns: Columns) =>
  `(SELECT * FROM ${unnested(columns)} ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C") i`;
const GRANT: Columns = [...KEY, ["asked_id", "text"]];

/** Values: namespaces, resources, leaseIds, holders, ttlMs, metadata. */
const ACQUIRE_HEAD = loadStatement({
  hasQueue: true,
  with: `,
  locked AS MATERIALIZED (
    SELECT i.*, k.* FROM ${inOrder([...GRANT, ["asked_by", "text"], ["asked_ms", "int"], ["asked_metadata", "text"]])}
    CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.token FROM leasehold.lease l
      WHERE ${SAME_KEY("l", "i")} AND l.lease_id <> i.asked_id AND NOT ${excludes("l")} AND NOT l.paused
        AND (NOT ${ANY_WAITER} OR coalesce((
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
  served AS (
    DELETE FROM leasehold.waiter w USING granted g
    WHERE ${SAME_KEY("w", "g")} AND w.lease_id = g.lease_id
    RETURNING 1
  )`,
  column: ", g.token AS granted",
  join: " LEFT JOIN granted g ON g.n = i.n",
  where: "g.n IS NULL",
});

interface HeadRow extends LoadedQueueRow {
  /** The token of the grant; null: the key was loaded. */
  readonly granted: number | null;
}

/** Grants what is free to the first of its waiters, or to any caller where there is none, and loads the other keys. */
export function acquireHead(batch: readonly AcquireRequest[]): FastStatement<AcquireOutcome> {
  return {
    text: ACQUIRE_HEAD,
    values: [
      ...keyColumns(batch),
      batch.map(({ leaseId }) => leaseId),
      batch.map(({ holder }) => holder),
      batch.map(({ ttlMs }) => ttlMs),
      batch.map(({ metadata = null }) => metadata),
    ],
    answersOf(rows) {
      const outcomes = new Array<AcquireOutcome | null>(batch.length).fill(null);
      const loaded = new Array<Loaded<Version> | null>(batch.length).fill(null);
      let nowMs = 0;
      for (const row of rows as readonly unknown[] as readonly HeadRow[]) {
        const { n, now, granted } = row;
        nowMs = now / 1_000;
        const ttlMs = batch[n - 1]?.ttlMs ?? 0;
        const term = termOf({ ttlMs, remainingMs: ttlMs, expiresAt: nowMs + ttlMs });
        if (granted === null) loaded[n - 1] = loadedOf(row);
        else outcomes[n - 1] = { status: "acquired", token: safeToken(granted), ...term };
      }
      return { nowMs, outcomes, loaded };
    },
  };
}

/** Values: namespaces, resources, leaseIds. */
const RELEASE_AND_WAKE = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  locked AS MATERIALIZED (
    SELECT i.n, k.* FROM ${inOrder(GRANT)} CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at FROM leasehold.lease l
      WHERE ${SAME_KEY("l", "i")} AND l.lease_id = i.asked_id AND ${excludes("l")}
        AND NOT (${ANY_WAITER} AND EXISTS (
          SELECT FROM leasehold.waiter w WHERE ${SAME_KEY("w", "l")} AND w.lease_id = i.asked_id
        ))
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
  ),
  released AS (
    UPDATE leasehold.lease l SET ended = 'released', expires_at = c.now
    FROM locked k CROSS JOIN clock c WHERE l.ctid = k.at
    RETURNING k.n, l.namespace, l.resource
  ),
  woken AS MATERIALIZED (
    SELECT x.n, CASE WHEN ${ANY_WAITER} THEN ${wakeFirst("x")} END AS woken
    FROM released x CROSS JOIN clock c
  )
SELECT (SELECT string_agg(t.n::text, ',') FROM woken t WHERE t.woken IS NULL OR t.woken = '') AS released`;

export function releaseAndWake(batch: readonly ReleaseRequest[]): LeanStatement<ReleaseOutcome> {
  return {
    text: RELEASE_AND_WAKE,
    values: [...keyColumns(batch), batch.map(({ leaseId }) => leaseId)],
    outcomes(row) {
      const { released } = row as { released: string | null };
      const outcomes = new Array<ReleaseOutcome | null>(batch.length).fill(null);
      for (const n of listOf(released)) outcomes[Number(n) - 1] = { status: "released" };
      return outcomes;
    },
  };
}
