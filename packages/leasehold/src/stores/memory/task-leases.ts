/** Grants on the tasks of one namespace in memory, as leases. */
import type { LeaseView, Page } from "../../lease/index.js";
import {
  type TaskLeasePosition,
  taskLease,
  taskLeaseCursor,
  taskLeasePosition,
  taskLeaseState,
} from "../../tasks/leases.js";
import type { TaskLeaseQuery } from "../../tasks/port.js";
import type { AttemptRecord, TaskRecord } from "../../tasks/record.js";
import { pageOf } from "./page.js";
import type { TaskIndex } from "./task-index.js";
import { grantsOf, iso, viewGrant } from "./task-views.js";

/** A grant and its task. */
interface Found {
  readonly record: TaskRecord;
  readonly grant: AttemptRecord;
}

/**
 * @throws InvalidOptionError for a cursor that no page returned
 */
export function leasesOf(tasks: TaskIndex, query: TaskLeaseQuery, nowMs: number): Page<LeaseView> {
  const { namespace, states, renewedOnly = false, limit = 100, cursor } = query;
  const after = cursor === undefined ? null : taskLeasePosition(cursor);
  const onlyLive = states?.every((state) => state === "live") ?? false;
  const { found, last } = pageOf(newestFirst(tasks, after, onlyLive), limit, ({ grant }) => {
    const state = taskLeaseState(grant.result, nowMs < grant.expiresAtMs);
    if (states && !states.includes(state)) return false;
    return !renewedOnly || grant.heartbeatAtMs !== null;
  });
  return {
    items: found.map(({ record: { id }, grant }) => {
      const remainingMs = Math.max(0, Math.ceil(grant.expiresAtMs - nowMs));
      const term = { ...viewGrant(grant), expiresAt: iso(grant.expiresAtMs), remainingMs };
      return taskLease({ namespace, id }, term);
    }),
    nextCursor: last && taskLeaseCursor({ seq: last.record.seq, attempt: last.grant.attempt }),
  };
}

/**
 * @param onlyLive skips ended grants
 */
function* newestFirst(
  tasks: TaskIndex,
  after: TaskLeasePosition | null,
  onlyLive: boolean,
): Generator<Found, void, void> {
  const begun = after && tasks.numbered(after.seq);
  for (const grant of begun ? grantsOf(begun).toReversed() : []) {
    if (begun && after && grant.attempt < after.attempt) yield { record: begun, grant };
  }
  const records = onlyLive ? tasks.runningNewestFirst(after?.seq) : tasks.newestFirst(after?.seq);
  for (const record of records) {
    for (const grant of grantsOf(record).toReversed()) yield { record, grant };
  }
}
