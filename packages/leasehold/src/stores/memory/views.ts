/** Pages of leases in memory. */
import {
  cursorAfter,
  type Key,
  type LeaseRecord,
  type LeaseView,
  type ListQuery,
  type Page,
  resourceOfCursor,
  stateOf,
} from "../../core/index.js";
import { compareUtf8 } from "./keys.js";
import type { LeaseRecords } from "./lease-records.js";

/**
 * Records that one page passes over, so that a filter which few match does not hold up the event loop. The page has
 * a cursor then, and fewer leases than asked for, or none.
 */
const MOST_PASSED_OVER = 10_000;

export function listOf(
  records: LeaseRecords | undefined,
  query: ListQuery,
  nowMs: number,
  view: (key: Key, record: LeaseRecord) => LeaseView,
): Page<LeaseView> {
  const { namespace, prefix = "", limit = 100, cursor } = query;
  const after = cursor === undefined ? "" : resourceOfCursor(cursor);
  const items: LeaseView[] = [];
  let passedOver = 0;
  let last = "";
  for (const [resource, record] of records?.from(later(prefix, after)) ?? []) {
    if (resource === after) continue;
    if (!resource.startsWith(prefix)) break;
    const isWanted = matches(record, query, nowMs);
    if (isWanted ? items.length === limit : passedOver === MOST_PASSED_OVER) {
      return { items, nextCursor: cursorAfter(last) };
    }
    if (isWanted) items.push(view({ namespace, resource }, record));
    else passedOver += 1;
    if (isWanted || passedOver === MOST_PASSED_OVER) last = resource;
  }
  return { items, nextCursor: null };
}

function later(a: string, b: string): string {
  return compareUtf8(a, b) < 0 ? b : a;
}

function matches(record: LeaseRecord, query: ListQuery, nowMs: number): boolean {
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
