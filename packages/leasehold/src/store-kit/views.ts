/** Lists of leases, for engines that cannot filter by themselves. */
import { compareUtf8 } from "../env/index.js";
import {
  cursorAfter,
  type Key,
  type LeaseRecord,
  type LeaseView,
  type ListQuery,
  type Page,
  resourceOfCursor,
  stateOf,
  viewOf,
} from "../lease/index.js";

/** Whether a list has this grant, by what the query says of its state, holder and times. */
export function matchesQuery(record: LeaseRecord, query: ListQuery, nowMs: number): boolean {
  const { states, renewedOnly = false, holder, expiringWithinMs, heldForMs } = query;
  if (holder !== undefined && record.holder !== holder) return false;
  if (renewedOnly && record.renewedAtMs === null) return false;
  const state = stateOf(record, nowMs);
  if (states && !states.includes(state)) return false;
  const { grantedAtMs, expiresAtMs } = record;
  if (expiringWithinMs !== undefined) {
    if (state !== "live" || Math.ceil(expiresAtMs - nowMs) > expiringWithinMs) return false;
  }
  return heldForMs === undefined || (state === "live" && nowMs - grantedAtMs >= heldForMs);
}

/**
 * One page of a list, out of all records that a store has.
 * @param textOf the store's time as text
 * @throws INVALID_OPTION for a cursor that is not one of a page
 * @example
 * ```ts
 * import { listRecords, rules } from "leasehold/port";
 *
 * const key = { namespace: "default", resource: "report" };
 * const request = { ...key, leaseId: "a".repeat(48), holder: "web-1", ttlMs: 30_000 };
 * const { record } = rules.acquire(null, request, 0, () => 1);
 * const records = record ? [[key, record]] : [];
 * const page = listRecords(records, { namespace: "default" }, 0, (ms) => new Date(ms).toISOString());
 * console.log(page.items.length, page.nextCursor);
 * ```
 */
export function listRecords(
  records: Iterable<readonly [key: Key, record: LeaseRecord]>,
  query: ListQuery,
  nowMs: number,
  textOf: (storeMs: number) => string,
): Page<LeaseView> {
  const { namespace, prefix = "", limit = 100, cursor } = query;
  const after = cursor === undefined ? null : resourceOfCursor(cursor);
  const found = [...records]
    .filter(([key]) => key.namespace === namespace && key.resource.startsWith(prefix))
    .filter(([{ resource }]) => after === null || compareUtf8(resource, after) > 0)
    .filter(([, record]) => matchesQuery(record, query, nowMs))
    .sort(([a], [b]) => compareUtf8(a.resource, b.resource));
  const items = found.slice(0, limit).map(([key, record]) => viewOf(key, record, nowMs, textOf));
  const last = items.at(-1);
  return { items, nextCursor: last && found.length > limit ? cursorAfter(last.resource) : null };
}
