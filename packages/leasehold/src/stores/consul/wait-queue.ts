/**
 * The wait queue (lease/queue.ts). A waiter is a key that its client's session holds, so that those of a dead
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
import { grantIdOf } from "../../env/index.js";
import { type Key, MOST_AWAITED, type QueuedWaiter } from "../../lease/index.js";
import type { Operation } from "./connection-api.js";
import { identityOf, type Place } from "./keys.js";
import type { Entry, Waiter } from "./records.js";
import type { Transactor } from "./transactions.js";

export function waiterIn({ waiters }: Entry, leaseId: string): Waiter | undefined {
  const id = identityOf(leaseId);
  return waiters.find((one) => one.id === id);
}

export function addWaiter(
  { queue }: Place,
  { leaseId, holder }: QueuedWaiter,
  session: string,
): Operation {
  const value = JSON.stringify({ holder, grantId: grantIdOf(leaseId) });
  return { verb: "lock", key: queue + identityOf(leaseId), value, session };
}

/** What a bell says. */
export interface Bell {
  readonly namespace: string;
  readonly resource: string;
  readonly wakes: string;
}

/** A resource that was freed, and its queue. */
export interface Freed {
  readonly key: Key;
  readonly place: Place;
  readonly waiters: readonly Waiter[];
}

/** Wakes the head of each queue; after that of a client whose session has ended, the next. */
export async function wakeHeads(
  transactor: Transactor,
  freed: readonly Freed[],
  deadlineMs: number,
): Promise<void> {
  for (let open = freed; open.length > 0; ) {
    open = open.filter(({ waiters }) => waiters.length > 0);
    const rings = open.map(({ key, place, waiters }) => {
      const operations = waiters.slice(0, 1).map((head) => ring(place, head, key));
      return { place, operations };
    });
    try {
      const applied = await transactor.each(rings, deadlineMs);
      open = open.flatMap((one, at) =>
        applied[at] ? [] : [{ ...one, waiters: one.waiters.slice(1) }],
      );
    } catch {
      // Waiters poll. The resources are free all the same.
      return;
    }
  }
}

function ring(place: Place, waiter: Waiter, { namespace, resource }: Key): Operation {
  const { session, grantId: wakes } = waiter;
  const bell: Bell = { namespace, resource, wakes };
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
export function served(entry: Entry, leaseId: string | null): readonly Waiter[] {
  const own = leaseId === null ? undefined : waiterIn(entry, leaseId);
  if (!own) return [];
  const before = entry.waiters.filter(({ createIndex }) => createIndex < own.createIndex);
  return [...before.slice(0, MOST_AWAITED), own];
}

function bellOf({ bells }: Place, { id, session }: Waiter): string {
  return `${bells}${session}/${id}`;
}
