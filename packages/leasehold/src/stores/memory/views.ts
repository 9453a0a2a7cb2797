/** Pages of leases in memory. */
import { compareUtf8 } from "../../env/index.js";
import {
  cursorAfter,
  type Key,
  type LeaseRecord,
  type LeaseView,
  type ListQuery,
  type Page,
  resourceOfCursor,
} from "../../lease/index.js";
import { matchesQuery } from "../../store-kit/index.js";
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
    ([, record]) => matchesQuery(record, query, nowMs),
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
