/**
 * The wait queue, by core/queue.ts: tickets are ephemeral znodes beside the locks. They are no
 * contenders, because whoever contends first has the lock, be it paused or dead.
 *
 *   asked, held ─▶ ticket ─▶ look again: still held, or kept for those before us ─▶ watch, answer
 *
 *   lock       [contender]            a release fires the watch of the first waiter, and no other
 *                    ▲
 *   queue      t1 ───┘ ◀── t2 ◀── t3  the others watch the ticket before theirs: when that is gone, the
 *                                     client looks which one is now, and asks for nobody
 *
 * Who is granted deletes its ticket and those before it, which were passed over, before the answer.
 *
 * How long a free lock is kept for the first ones: from when it became free by the leader's clock, where
 * its last contender left in the step that wrote the lock's znode (a release, a ttl that was over);
 * else, as at the end of a session, from when this client has first seen it free. That is later than
 * the truth, so that a lock is kept for too long rather than too briefly.
 *
 * Failures. The ticket of a client that has died goes with its session, and is passed over meanwhile.
 * Whose session has ended comes last. An answer that is lost is settled by the next look: the ticket
 * is found by its UUID. A watch that is lost with its connection costs a look by all who wait.
 */

import { type AcquireRequest, type Grant, type Key, queue } from "../../core/index.js";
import { type Clock, grantIdOf, Recent } from "../../env/index.js";
import type { Doubt } from "./decide-contenders.js";
import { isRefused } from "./failures.js";
import { contenderOf, inOrder, ticketPrefix } from "./keys.js";
import type { Own } from "./own.js";
import { encode } from "./records.js";
import { orNull, type Seen, type Talk, timeOf } from "./transactions.js";
import type { Watches } from "./watch.js";

/** A ticket that this client has left, or meant to. */
export interface OwnTicket {
  readonly id: string;
  readonly grant: Grant;
  /** By this process's monotonic clock: it is deleted then, unless its waiter asks again. */
  untilMs: number;
  /** The znode whose change concerns it. */
  watched: string | null;
}

/** The wait queue as one request sees it. */
export interface Place {
  readonly tickets: readonly string[];
  /** Where its own one stands; -1 if it has none. */
  readonly at: number;
  /** How many come before it. */
  readonly ahead: number;
}

/** Of whoever has not looked. */
export const NOWHERE: Place = { tickets: [], at: -1, ahead: 0 };

/** As it is behind what was asked before on the same way. */
export async function lookForPlace(talk: Talk, grant: Grant): Promise<Place> {
  return placeOf(await talk.tickets(grant), grant.leaseId);
}

function placeOf(tickets: readonly string[], leaseId: string): Place {
  const prefix = ticketPrefix(contenderOf(leaseId));
  const at = tickets.findIndex((name) => name.startsWith(prefix));
  return { tickets, at, ahead: at < 0 ? tickets.length : at };
}

/**
 * Not bounded by the number of those who are waited for, as elsewhere: tickets of the dead go with their
 * sessions, so that no queue stands still for longer.
 */
export function reservedForMs(ahead: number): number {
  return ahead * queue.RESERVED_MS;
}

/** Locks of which this client remembers since when they are free. Others are reserved anew. */
const MOST_REMEMBERED = 2_000;
const LOOK_TIMEOUT_MS = 5_000;

export class WaitQueue {
  readonly #freeSince = new Recent<{ readonly change: string; readonly sinceMs: number }>(
    MOST_REMEMBERED,
  );

  constructor(
    readonly clock: Clock,
    readonly tickets: Own<OwnTicket>,
    readonly watches: Watches,
  ) {}

  /** The ticket of this request, which is there or about to be, counts for as long as it says. */
  keep(id: string, { namespace, resource, leaseId, queueMs = 0 }: AcquireRequest): void {
    const untilMs = this.clock.monotonic() + Math.min(queueMs, queue.LONGEST_TICKET_MS);
    const known = this.tickets.get(id);
    // Never shorter than promised before.
    if (known) known.untilMs = Math.max(known.untilMs, untilMs);
    else {
      this.tickets.put({ id, grant: { namespace, resource, leaseId }, untilMs, watched: null });
    }
  }

  /** Leaves a ticket at the end of the queue. */
  async leave(talk: Talk, id: string, request: AcquireRequest, doubt: Doubt): Promise<void> {
    this.keep(id, request);
    const folder = talk.paths.queue(request);
    const create = `${folder}/${ticketPrefix(contenderOf(request.leaseId))}`;
    const data = encode({ holder: request.holder });
    for (;;) {
      try {
        doubt.unknown = true;
        await talk.commit([{ create, data, ephemeral: true }]);
        doubt.unknown = false;
        return;
      } catch (error) {
        if (!isRefused(error, "NO_NODE")) throw error;
        doubt.unknown = false;
        await talk.make(folder);
      }
    }
  }

  /** Gives a ticket up. */
  async withdraw(talk: Talk, id: string, key: Key, { tickets, at }: Place): Promise<void> {
    await remove(talk, key, tickets.slice(Math.max(at, 0), at + 1));
    this.#forget(id);
  }

  /** The lock was granted: the ticket is gone, and those before it, which were passed over. */
  async served(talk: Talk, id: string, key: Key, { tickets, at }: Place): Promise<void> {
    await remove(talk, key, tickets.slice(0, at + 1));
    this.#forget(id);
  }

  /** How long a free lock is still kept from whoever has so many before it. */
  async keptMs(talk: Talk, key: Key, { stat }: Seen, ahead: number): Promise<number> {
    if (!stat || ahead === 0) return 0;
    const nowMs = this.clock.monotonic();
    const sinceMs = this.#seenFree(talk.paths.lock(key), stat.pzxid.toString("hex"), nowMs);
    const saidMs = stat.pzxid.equals(stat.mzxid) ? (await talk.sync()) - timeOf(stat) : 0;
    const leftMs = reservedForMs(ahead) - Math.max(nowMs - sinceMs, saidMs);
    return Math.max(0, Math.ceil(leftMs));
  }

  /**
   * From now on the waiter is told when its turn may have come.
   * @param first who has the lock; undefined: nobody
   * @returns whether what was in its way still is
   */
  async wait(talk: Talk, id: string, place: Place, first: string | undefined): Promise<boolean> {
    const ticket = this.tickets.get(id);
    if (!ticket) return false;
    const before = place.tickets[place.ahead - 1];
    return (await this.#watch(talk, ticket, before)) === (before ?? first);
  }

  /**
   * @param before the ticket before it; undefined: it is the first, and the lock is watched
   * @returns what is in its way: who has the lock (empty: nobody), or that ticket (null: it is gone)
   */
  async #watch(talk: Talk, ticket: OwnTicket, before: string | undefined): Promise<string | null> {
    const { link, deadlineMs, paths } = talk;
    const { id, grant } = ticket;
    if (before === undefined) {
      const path = paths.lock(grant);
      this.#leaveWatch(ticket, path);
      return this.watches.stand(path, id, {
        set: async (fire) => {
          const found = await orNull(link.getChildren(path, deadlineMs, fire));
          return found && (inOrder(found.children)[0] ?? "");
        },
        fired: () => this.#tell(ticket, path),
      });
    }
    const path = `${paths.queue(grant)}/${before}`;
    this.#leaveWatch(ticket, path);
    return this.watches.stand(path, id, {
      set: async (fire) => (await orNull(link.getData(path, deadlineMs, fire))) && before,
      fired: () => void this.#moveUp(talk, ticket, path),
    });
  }

  /** The ticket before this one is gone. Its waiter is told only if nothing is in its way any more. */
  async #moveUp(before: Talk, ticket: OwnTicket, fired: string): Promise<void> {
    let watched: string | null = fired;
    // Given up meanwhile, or asked for by its waiter.
    const isOver = () => watched === null || ticket.watched !== watched;
    if (isOver()) return;
    const talk = before.later(LOOK_TIMEOUT_MS);
    try {
      for (;;) {
        const place = await lookForPlace(talk, ticket.grant);
        if (isOver()) return;
        if (place.at < 0) break;
        if (await this.#watch(talk, ticket, place.tickets[place.at - 1])) return;
        if (place.at === 0) break;
        watched = ticket.watched;
      }
    } catch {
      // It finds out by asking.
    }
    this.#tell(ticket, ticket.watched);
  }

  #tell(ticket: OwnTicket, path: string | null): void {
    if (path === null || ticket.watched !== path) return;
    const { namespace, resource, leaseId } = ticket.grant;
    const wakes = grantIdOf(leaseId);
    this.watches.tell(namespace, { type: "changed", namespace, resource, wakes });
  }

  #leaveWatch(ticket: OwnTicket, next: string | null): void {
    if (ticket.watched !== null && ticket.watched !== next) {
      this.watches.leave(ticket.watched, ticket.id);
    }
    ticket.watched = next;
  }

  #forget(id: string): void {
    const ticket = this.tickets.get(id);
    if (ticket) this.#leaveWatch(ticket, null);
    this.tickets.forget(id);
  }

  /** @param change by which its last contender left */
  #seenFree(lock: string, change: string, nowMs: number): number {
    const known = this.#freeSince.get(lock);
    const sinceMs = known?.change === change ? known.sinceMs : nowMs;
    this.#freeSince.set(lock, { change, sinceMs });
    return sinceMs;
  }
}

/** Those gone already are gone. */
async function remove(talk: Talk, key: Key, tickets: readonly string[]): Promise<void> {
  const folder = talk.paths.queue(key);
  await Promise.all(
    tickets.map((name) => orNull(talk.link.remove(`${folder}/${name}`, -1, talk.deadlineMs))),
  );
}
