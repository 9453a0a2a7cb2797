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

/** @param records of the namespace, by resource */
export function listOf(
  records: Iterable<readonly [string, LeaseRecord]>,
  query: ListQuery,
  nowMs: number,
  view: (key: Key, record: LeaseRecord) => LeaseView,
): Page<LeaseView> {
  const { namespace, prefix = "", states, renewedOnly = false, limit = 100, cursor } = query;
  const after = cursor === undefined ? undefined : resourceOfCursor(cursor);
  const found: (readonly [string, LeaseRecord])[] = [];
  for (const entry of records) {
    const [resource, record] = entry;
    if (!resource.startsWith(prefix)) continue;
    if (after !== undefined && compareUtf8(resource, after) <= 0) continue;
    if (states && !states.includes(stateOf(record, nowMs))) continue;
    if (renewedOnly && record.renewedAtMs === null) continue;
    found.push(entry);
  }
  found.sort(([a], [b]) => compareUtf8(a, b));
  const page = found.slice(0, limit);
  const last = found.length > page.length ? page.at(-1) : undefined;
  return {
    items: page.map(([resource, record]) => view({ namespace, resource }, record)),
    nextCursor: last ? cursorAfter(last[0]) : null,
  };
}
