/**
 * The wait queue (core/queue.ts). A waiter is a key that its client's session holds, so that those of a dead
 * client vanish. CreateIndex gives the order. A waiter is woken through the mailbox of its client (watch.ts):
 *
 *   refused ──▶ adds the waiter, and reads in the same transaction: this read decides
 *   freed   ──▶ the transaction that frees the resource reads the queue; the client that freed it puts a key for
 *               the head of the queue into its mailbox
 *   granted ──▶ deletes both, and the waiters before it, which were passed over
 *
 * A waiter that is added before the transaction that frees the resource is in the queue which that transaction
 * reads. One that is added later finds the resource free.
 */
import { type AcquireRequest, MOST_AWAITED } from "../../core/index.js";
import { grantIdOf } from "../../env/index.js";
import type { Operation } from "./connection-api.js";
import { identityOf, type Place } from "./keys.js";
import type { Entry, Waiter } from "./records.js";

/** The number of waiters before a request, and its own one. */
export function positionOf(
  { waiters }: Entry,
  leaseId: string,
): { readonly ahead: number; readonly own: Waiter | undefined } {
  const id = identityOf(leaseId);
  const at = waiters.findIndex((one) => one.id === id);
  return { ahead: at < 0 ? waiters.length : at, own: waiters[at] };
}

export function addWaiter(
  { queue }: Place,
  { leaseId, holder }: AcquireRequest,
  session: string,
): Operation[] {
  const value = JSON.stringify({ holder, grantId: grantIdOf(leaseId) });
  return [{ verb: "lock", key: queue + identityOf(leaseId), value, session }];
}

/** What a bell says. */
export interface Bell {
  readonly namespace: string;
  readonly resource: string;
  readonly wakes: string;
}

/** Wakes a waiter; fails if its client's session has ended. */
export function ring(place: Place, waiter: Waiter, bell: Bell): Operation {
  const { session } = waiter;
  return { verb: "lock", key: bellOf(place, waiter), value: JSON.stringify(bell), session };
}

/** Deletes waiters, and what would wake them. */
export function withoutWaiters(place: Place, waiters: readonly Waiter[]): Operation[] {
  return waiters.flatMap((waiter): Operation[] => [
    { verb: "delete", key: place.queue + waiter.id },
    { verb: "delete", key: bellOf(place, waiter) },
  ]);
}

/** The waiter of a granted request, and those before it, which are passed over. */
export function served({ waiters }: Entry, own: Waiter): readonly Waiter[] {
  const before = waiters.filter(({ createIndex }) => createIndex < own.createIndex);
  return [...before.slice(0, MOST_AWAITED), own];
}

function bellOf({ bells }: Place, { id, session }: Waiter): string {
  return `${bells}${session}/${id}`;
}
