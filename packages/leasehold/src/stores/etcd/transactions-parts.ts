/** One request's part of a transaction: its reads, its changes, and the state afterwards. */
import type { Failed } from "../../core/index.js";
import type { Operation } from "./connection-api.js";
import type { Change, Changing } from "./decide.js";
import type { EngineLease } from "./engine-leases.js";
import type { Place } from "./keys.js";
import { type Entry, encodeRecord, readEntry, unchanged } from "./records.js";
import { putWaiter, readQueue, without } from "./wait-queue.js";

/** After this many consecutive changes by this client, the next one expects no other writer. */
export const UNDISTURBED = 3;

/** A request in progress, with the known state of its resource. */
export interface Open<Request, Outcome> {
  readonly request: Request;
  readonly place: Place;
  /** Of the request, which may be in the queue. */
  readonly leaseId: string | null;
  entry: Entry | undefined;
  /** Consecutive changes by this client since the resource was read. */
  changes: number;
  /** Whether the state was read in this call. */
  read: boolean;
  /** The change to make in the next transaction. */
  change?: Pending<Outcome>;
  /** The waiter to add with the next read. */
  waiter?: { readonly holder: string; readonly lease: EngineLease };
  /** Whether the waiter was added in this call. */
  inQueue: boolean;
  outcome?: Outcome | Failed;
}

/** A change, and the entry it was decided on. */
export interface Pending<Outcome> {
  readonly entry: Entry;
  readonly step: Changing<Outcome>;
}

/** The operations that add the waiter, if any, and then read. */
export function readingOf<Request, Outcome>({
  place,
  leaseId,
  waiter,
}: Open<Request, Outcome>): Operation[] {
  const reads = [...readEntry(place), ...readQueue(place, leaseId)];
  if (!waiter || leaseId === null) return reads;
  return [...putWaiter(place, leaseId, waiter.holder, waiter.lease.id), ...reads];
}

/** The nested transaction of a change: it compares everything that the decision rests on. */
export function changeOf<Request, Outcome>(
  one: Open<Request, Outcome>,
  { entry, step }: Pending<Outcome>,
): Operation {
  const { place } = one;
  const { record, lock, given = [], deleted = [] } = step.change;
  const puts: Operation[] = deleted.map((key) => ({
    request_delete_range: { key },
  }));
  if (record) {
    puts.push({ request_put: { key: place.record, value: encodeRecord(record) } });
  }
  if (lock !== "kept") {
    puts.push(
      "put" in lock
        ? {
            request_put: {
              key: lock.put,
              value: lock.value,
              lease: lock.lease,
            },
          }
        : { request_delete_range: { key: lock.deleted } },
    );
  }
  return {
    request_txn: {
      compare:
        given.length === 0 ? unchanged(place, entry) : [...unchanged(place, entry), ...given],
      success: puts,
      // These reads are nearly half of the request.
      ...(one.changes < UNDISTURBED && { failure: readingOf(one) }),
    },
  };
}

/** The state after the change. */
export function entryAfter<Outcome>(
  place: Place,
  { entry: before, step }: Pending<Outcome>,
  revision: number,
): Entry {
  const { record, lock, deleted = [] } = step.change;
  const { owner } = before;
  const waiters = without(place, before.waiters, deleted);
  if (!record) return { ...before, waiters };
  const token = record.token || revision;
  const entry = { record: { ...record, token }, modRevision: revision, waiters };
  if (lock === "kept") return { ...entry, owner };
  if ("deleted" in lock) return { ...entry, owner: null };
  const { put: key, lease, value } = lock;
  return { ...entry, owner: { key, createRevision: token, lease, value } };
}

/** The engine lease to which a change attaches its lock, if it has one. */
export function leaseOf({ lock }: Change): string[] {
  return lock !== "kept" && "put" in lock ? [lock.lease] : [];
}
