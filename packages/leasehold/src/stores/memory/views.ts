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
import { pageOf } from "./page.js";

export function listOf(
  records: LeaseRecords | undefined,
  query: ListQuery,
  nowMs: number,
  view: (key: Key, record: LeaseRecord) => LeaseView,
): Page<LeaseView> {
  const { namespace, prefix = "", limit = 100, cursor } = query;
  const after = cursor === undefined ? "" : resourceOfCursor(cursor);
  const { found, last } = pageOf(
    recordsAfter(records?.from(later(prefix, after)) ?? [], after, prefix),
    limit,
    ([, record]) => matches(record, query, nowMs),
  );
  return {
    items: found.map(([resource, record]) => view({ namespace, resource }, record)),
    nextCursor: last && cursorAfter(last[0]),
  };
}

function* recordsAfter(
  records: Iterable<readonly [string, LeaseRecord]>,
  after: string,
  prefix: string,
): Generator<readonly [string, LeaseRecord], void, void> {
  for (const record of records) {
    const [resource] = record;
    if (resource === after) continue;
    if (!resource.startsWith(prefix)) return;
    yield record;
  }
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
