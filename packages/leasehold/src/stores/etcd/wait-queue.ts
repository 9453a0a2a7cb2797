/**
 * The wait queue (core/queue.ts). A waiter has two keys, both attached to an engine lease that lasts as
 * long as its queue position, so that the keys of a dead waiter expire:
 *
 *   waiter   the holder's name; create revisions give the order of the queue
 *   bell     empty; deleting it wakes its waiter
 *
 *   refused ──▶ puts both; each poll that extends the position puts them again
 *   freed   ──▶ the client that frees the resource deletes the first waiter's bell
 *   granted ──▶ deletes both, and the waiters before it, which were passed over
 *
 * Waiters are only added at the end, so the first waiter stays first until its key is deleted.
 */
import { MOST_AWAITED } from "../../core/index.js";
import {
  COMPARE,
  type Compare,
  type KeyValue,
  type Operation,
  type RangeAnswer,
  type RangeRequest,
  type Response,
  revisionOf,
  SORT,
} from "./connection-api.js";
import { below, type Place } from "./keys.js";

export interface Waiter {
  readonly leaseId: string;
  readonly holder: string;
  readonly createRevision: number;
  /** The engine lease of its keys. */
  readonly lease: string;
}

export interface WaitQueue {
  /** In queue order; complete if there are at most {@link MOST_READ}. */
  readonly first: readonly Waiter[];
  readonly count: number;
  /** The waiter of the request that read the queue. */
  readonly own: Waiter | null;
  /** The revision of the read: later waiters are unknown. */
  readonly revision: number;
}

export const NO_WAITERS: WaitQueue = { first: [], count: 0, own: null, revision: 0 };

/** The waiters with a reservation, and one more. */
const MOST_READ = MOST_AWAITED + 1;

/**
 * @param leaseId of the request, if it may be in the queue
 */
export function readQueue({ queueFolder }: Place, leaseId: string | null): Operation[] {
  const { start, end } = below(queueFolder);
  const all: Operation = {
    request_range: {
      key: start,
      range_end: end,
      limit: String(MOST_READ),
      sort_target: SORT.CREATE,
      sort_order: SORT.ASCEND,
    },
  };
  if (leaseId === null) return [all];
  return [all, { request_range: { key: queueFolder + leaseId } }];
}

/**
 * @param answers the responses to {@link readQueue}
 */
export function queueOf(
  { queueFolder }: Place,
  [all, own]: readonly (Response | undefined)[],
  revision: number,
): WaitQueue {
  const decoded = (answer?: RangeAnswer) =>
    (answer?.kvs ?? []).map((kv) => waiterOf(queueFolder, kv));
  return {
    first: decoded(all?.response_range),
    count: Number(all?.response_range?.count ?? 0),
    own: decoded(own?.response_range)[0] ?? null,
    revision,
  };
}

/** Counts earlier waiters. */
export function countBefore({ queueFolder }: Place, { createRevision }: Waiter): RangeRequest {
  const { start, end } = below(queueFolder);
  return {
    key: start,
    range_end: end,
    keys_only: true,
    max_create_revision: String(createRevision - 1),
  };
}

/** Adds a waiter, or extends its position. */
export function putWaiter(place: Place, leaseId: string, holder: string, lease: string) {
  return [
    [place.queueFolder, holder],
    [place.bells, ""],
  ].map(
    ([folder, value = ""]): Operation => ({
      request_put: { key: folder + leaseId, value: value, lease },
    }),
  );
}

/** Returns the waiter with a lease id, if it was read. */
export function findWaiter({ first, own }: WaitQueue, leaseId: string): Waiter | null {
  return [...first, own].find((one) => one?.leaseId === leaseId) ?? null;
}

/**
 * Returns the number of waiters before this one, as far as read: all of them if it is not in the queue.
 */
export function seenBefore(waiters: WaitQueue, leaseId: string): number {
  const at = waiters.first.findIndex((one) => one.leaseId === leaseId);
  if (at >= 0) return at;
  return findWaiter(waiters, leaseId) ? waiters.first.length : waiters.count;
}

/** Compares that no waiter was added since the queue was read. */
export function noNewWaiter({ queueFolder }: Place, { revision }: WaitQueue): Compare {
  const { start, end } = below(queueFolder);
  return {
    key: start,
    range_end: end,
    target: COMPARE.CREATE,
    result: COMPARE.LESS,
    create_revision: revision + 1,
  };
}

/**
 * Wakes the first waiter, on condition that it is still the first; or none, on condition that the queue
 * is empty.
 */
export function ringing(
  place: Place,
  waiters: WaitQueue,
): { readonly given: readonly Compare[]; readonly deleted: readonly string[] } {
  const [first] = waiters.first;
  if (!first) return { given: [noNewWaiter(place, waiters)], deleted: [] };
  const { leaseId, createRevision } = first;
  const key = place.queueFolder + leaseId;
  return {
    given: [
      {
        key,
        target: COMPARE.CREATE,
        result: COMPARE.EQUAL,
        create_revision: createRevision,
      },
    ],
    deleted: [place.bells + leaseId],
  };
}

/** Both keys of a waiter. */
export function keysOf({ queueFolder, bells }: Place, { leaseId }: Waiter): string[] {
  return [queueFolder + leaseId, bells + leaseId];
}

/** The waiters that are passed over when this one is granted. */
export function passedOver({ queueFolder }: Place, { first }: WaitQueue, own: Waiter): string[] {
  return first
    .filter(({ createRevision }) => createRevision < own.createRevision)
    .slice(0, MOST_AWAITED)
    .map(({ leaseId }) => queueFolder + leaseId);
}

/** The queue after some waiters are deleted. */
export function without(place: Place, waiters: WaitQueue, deleted: readonly string[]): WaitQueue {
  if (deleted.length === 0) return waiters;
  const { queueFolder } = place;
  const first = waiters.first.filter(({ leaseId }) => !deleted.includes(queueFolder + leaseId));
  if (first.length === waiters.first.length) return waiters;
  // Waiters behind those that were read are unknown.
  return { ...waiters, first, own: null, revision: 0 };
}

function waiterOf(queueFolder: string, kv: KeyValue): Waiter {
  return {
    leaseId: kv.key.slice(queueFolder.length),
    holder: kv.value ?? "",
    createRevision: revisionOf(kv.create_revision),
    lease: kv.lease ?? "0",
  };
}
