/**
 * Those who wait in our way (core/queue.ts). A waiter has two keys, both under an engine lease that
 * lasts for as long as its place is kept, so that a dead one's vanish:
 *
 *   its ticket   the holder's name; the create revisions of tickets are the order of the queue
 *   its bell     empty; deleting it wakes the waiter that it is named after
 *
 *   refused ──▶ both are put, again for every look that wants the place for longer
 *   freed   ──▶ whoever frees the resource deletes the bell of the first ticket
 *   granted ──▶ both are deleted, and the tickets before them: they were passed over
 *
 * Tickets are only added at the end: who was read to be first is so until its ticket is gone.
 */
import { queue } from "../../core/index.js";
import {
  type Compare,
  type KeyValue,
  type Operation,
  type RangeAnswer,
  type Response,
  revisionOf,
} from "./connection-api.js";
import { below, fromBase64, type Place, toBase64 } from "./keys.js";

export interface Waiter {
  readonly grantId: string;
  readonly holder: string;
  readonly createRevision: number;
  /** The engine lease that its keys are under. */
  readonly lease: string;
}

export interface WaitQueue {
  /** In their order; all of them if there are no more than {@link MOST_READ}. */
  readonly first: readonly Waiter[];
  readonly count: number;
  /** Whoever asked when this was read. */
  readonly own: Waiter | null;
  /** Up to which this is known: later tickets were not seen. */
  readonly revision: number;
}

export const NO_WAITERS: WaitQueue = { first: [], count: 0, own: null, revision: 0 };

/** Those who are waited for, and one more. */
const MOST_READ = queue.MOST_AWAITED + 1;

/** @param grantId of whoever asks, if it may have a ticket */
export function readQueue({ tickets }: Place, grantId: string | null): Operation[] {
  const { start, end } = below(tickets);
  const all: Operation = {
    request_range: {
      key: toBase64(start),
      range_end: toBase64(end),
      limit: String(MOST_READ),
      sort_target: "CREATE",
      sort_order: "ASCEND",
    },
  };
  if (grantId === null) return [all];
  return [all, { request_range: { key: toBase64(tickets + grantId) } }];
}

/** @param answers of {@link readQueue} */
export function queueOf(
  { tickets }: Place,
  [all, own]: readonly (Response | undefined)[],
  revision: number,
): WaitQueue {
  const decoded = (answer?: RangeAnswer) => (answer?.kvs ?? []).map((kv) => waiterOf(tickets, kv));
  return {
    first: decoded(all?.response_range),
    count: Number(all?.response_range?.count ?? 0),
    own: decoded(own?.response_range)[0] ?? null,
    revision,
  };
}

/** Tickets that were made before. */
export function countBefore({ tickets }: Place, { createRevision }: Waiter): object {
  const { start, end } = below(tickets);
  return {
    key: toBase64(start),
    range_end: toBase64(end),
    keys_only: true,
    max_create_revision: String(createRevision - 1),
  };
}

/** Makes a place in the queue, or keeps it for longer. */
export function putTicket(place: Place, grantId: string, holder: string, lease: string) {
  return [
    [place.tickets, holder],
    [place.bells, ""],
  ].map(
    ([folder, value = ""]): Operation => ({
      request_put: { key: toBase64(folder + grantId), value: toBase64(value), lease },
    }),
  );
}

/** The ticket of a lease id, if it was read. */
export function ticketOf({ first, own }: WaitQueue, grantId: string): Waiter | null {
  return [...first, own].find((one) => one?.grantId === grantId) ?? null;
}

/** How many come before this one, as far as they were read: all of them if it has no ticket. */
export function seenBefore(waiters: WaitQueue, grantId: string): number {
  const at = waiters.first.findIndex((one) => one.grantId === grantId);
  if (at >= 0) return at;
  return ticketOf(waiters, grantId) ? waiters.first.length : waiters.count;
}

/** No waiter has come since the queue was read. */
export function noNewWaiter({ tickets }: Place, { revision }: WaitQueue): Compare {
  const { start, end } = below(tickets);
  return {
    key: toBase64(start),
    range_end: toBase64(end),
    target: "CREATE",
    result: "LESS",
    create_revision: String(revision + 1),
  };
}

/** Wakes the first waiter, provided that it is the first; or none, provided that none waits. */
export function ringing(
  place: Place,
  waiters: WaitQueue,
): { readonly given: readonly Compare[]; readonly deleted: readonly string[] } {
  const [first] = waiters.first;
  if (!first) return { given: [noNewWaiter(place, waiters)], deleted: [] };
  const { grantId, createRevision } = first;
  const key = toBase64(place.tickets + grantId);
  return {
    given: [{ key, target: "CREATE", result: "EQUAL", create_revision: String(createRevision) }],
    deleted: [place.bells + grantId],
  };
}

/** Both keys of a place in the queue. */
export function keysOf({ tickets, bells }: Place, { grantId }: Waiter): string[] {
  return [tickets + grantId, bells + grantId];
}

/** The tickets of those who are passed over when the lease id is served. */
export function passedOver({ tickets }: Place, { first }: WaitQueue, own: Waiter): string[] {
  return first
    .filter(({ createRevision }) => createRevision < own.createRevision)
    .slice(0, queue.MOST_AWAITED)
    .map(({ grantId }) => tickets + grantId);
}

/** When some tickets are gone. */
export function without(
  { tickets }: Place,
  waiters: WaitQueue,
  deleted: readonly string[],
): WaitQueue {
  const first = waiters.first.filter(({ grantId }) => !deleted.includes(tickets + grantId));
  if (first.length === waiters.first.length) return waiters;
  // Who stood behind those that were read is not known.
  return { ...waiters, first, own: null, revision: 0 };
}

function waiterOf(tickets: string, kv: KeyValue): Waiter {
  return {
    grantId: fromBase64(kv.key).slice(tickets.length),
    holder: fromBase64(kv.value ?? ""),
    createRevision: revisionOf(kv.create_revision),
    lease: kv.lease ?? "0",
  };
}
