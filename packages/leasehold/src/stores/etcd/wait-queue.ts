/**
 * The wait queue (lease/queue.ts). A waiter has two keys, both attached to an engine lease that lasts as
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
import { MOST_AWAITED, type QueuedWaiter } from "../../lease/index.js";
import {
  COMPARE,
  type Compare,
  type KeyValue,
  type Operation,
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
  /** In queue order. */
  readonly first: readonly Waiter[];
  readonly count: number;
  /** The waiters of the requests that read the queue. */
  readonly alone: readonly Waiter[];
  /** The revision of the read: later waiters are unknown. */
  readonly revision: number;
}

export const NO_WAITERS: WaitQueue = { first: [], count: 0, alone: [], revision: 0 };

/** The waiters with a reservation, and one more. */
const MOST_READ = MOST_AWAITED + 1;

/** With more requests for a resource in one batch, its whole queue is read. */
const MOST_READ_ALONE = 4;

/** At most five operations. @param leaseIds of the requests, which may be in the queue */
export function readQueue({ queueFolder }: Place, leaseIds: readonly string[]): Operation[] {
  const { start, end } = below(queueFolder);
  const sorted = { sort_target: SORT.CREATE, sort_order: SORT.ASCEND };
  const all = { key: start, range_end: end, ...sorted };
  if (leaseIds.length > MOST_READ_ALONE) return [{ request_range: all }];
  return [
    { request_range: { ...all, limit: String(MOST_READ) } },
    ...leaseIds.map((leaseId) => ({ request_range: { key: queueFolder + leaseId } })),
  ];
}

/**
 * @param answers the responses to {@link readQueue}
 */
export function queueOf(
  { queueFolder }: Place,
  [all, ...alone]: readonly Response[],
  revision: number,
): WaitQueue {
  const decoded = (answer?: Response) =>
    (answer?.response_range?.kvs ?? []).map((kv) => waiterOf(queueFolder, kv));
  return {
    first: decoded(all),
    count: Number(all?.response_range?.count ?? 0),
    alone: alone.flatMap(decoded),
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

/** A waiter that joins, or stays for longer, with the id of an engine lease that lasts as long as it does. */
export interface Joining {
  readonly waiter: QueuedWaiter;
  readonly lease: string;
}

export function putWaiter(
  place: Place,
  { waiter: { leaseId, holder }, lease }: Joining,
): Operation[] {
  const [key = "", bell = ""] = keysOf(place, leaseId);
  return [
    { request_put: { key, value: holder, lease } },
    { request_put: { key: bell, value: "", lease } },
  ];
}

export function deleteWaiter(place: Place, leaseId: string): Operation[] {
  return keysOf(place, leaseId).map((key) => ({ request_delete_range: { key } }));
}

/** Returns the waiter with a lease id, if it was read. */
export function findWaiter({ first, alone }: WaitQueue, leaseId: string): Waiter | null {
  const isIt = (one: Waiter) => one.leaseId === leaseId;
  return first.find(isIt) ?? alone.find(isIt) ?? null;
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

/** What wakes a waiter, and on which conditions. */
export interface Ring {
  readonly given: readonly Compare[];
  readonly deleted: readonly string[];
}

/**
 * Wakes the first waiter, on condition that it is still the first; or none, on condition that the queue
 * is empty.
 */
export function ringing(place: Place, waiters: WaitQueue): Ring {
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
export function keysOf({ queueFolder, bells }: Place, leaseId: string): string[] {
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
  return { ...waiters, first, alone: [], revision: 0 };
}

function waiterOf(queueFolder: string, kv: KeyValue): Waiter {
  return {
    leaseId: kv.key.slice(queueFolder.length),
    holder: kv.value ?? "",
    createRevision: revisionOf(kv.create_revision),
    lease: kv.lease ?? "0",
  };
}
