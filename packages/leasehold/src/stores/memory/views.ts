/** Pages of leases in memory. */
import {
  type Key,
  type LeaseRecord,
  type LeaseView,
  type ListQuery,
  type Page,
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
  const found: (readonly [string, LeaseRecord])[] = [];
  for (const entry of records) {
    const [resource, record] = entry;
    if (!resource.startsWith(prefix)) continue;
    if (cursor !== undefined && compareUtf8(resource, cursor) <= 0) continue;
    if (states && !states.includes(stateOf(record, nowMs))) continue;
    if (renewedOnly && record.renewedAtMs === null) continue;
    found.push(entry);
  }
  found.sort(([a], [b]) => compareUtf8(a, b));
  const page = found.slice(0, limit);
  return {
    items: page.map(([resource, record]) => view({ namespace, resource }, record)),
    nextCursor: found.length > page.length ? (page.at(-1)?.[0] ?? null) : null,
  };
}
