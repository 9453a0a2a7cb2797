/**
 * The wait queue of core/queue.ts. Waiters are ephemeral znodes beside the locks. They are not
 * contenders, because the first contender holds the lock even if it is paused or dead.
 *
 *   refused ─▶ add waiter ─▶ read again: still held, or reserved for earlier waiters ─▶ watch, return
 *
 *   lock       [contender]            a release fires only the first waiter's watch
 *                    ▲
 *   queue      t1 ───┘ ◀── t2 ◀── t3  the others watch the waiter before them: when that is gone, the
 *                                     client watches the next one before it, without polling
 *
 * Before an acquire returns a grant, it deletes its waiter and those before it, which were passed over.
 *
 * A free lock is reserved for the first waiters from when it became free. If its last contender was
 * deleted in the transaction that wrote the lock's znode (a release, an expired TTL), that time is
 * known by the leader's clock. Otherwise, as at the end of a session, it counts from when this client
 * first saw the lock free. That is later, so a reservation may last too long, but is never too short.
 *
 * Failures. The waiter of a dead client is deleted with its session, and passed over until then. A
 * client whose session ended starts again at the end of the queue. After a lost response, the next read
 * finds the waiter by its UUID. After a watch is lost with its connection, every waiter of this client
 * polls once.
 */

import {
  type AcquireRequest,
  type Grant,
  type Key,
  LONGEST_WAITER_MS,
  RESERVED_MS,
} from "../../core/index.js";
import { type Clock, grantIdOf, Recent } from "../../env/index.js";
import type { Doubt } from "./decide-contenders.js";
import { isRefused } from "./failures.js";
import { contenderOf, inOrder, waiterPrefix } from "./keys.js";
import type { Own } from "./own.js";
import { encode } from "./records.js";
import { orNull, type Seen, type Talk, timeOf } from "./transactions.js";
import type { Watches } from "./watch.js";

/** A waiter that this client has added, or meant to add. */
export interface OwnWaiter {
  readonly id: string;
  readonly grant: Grant;
  /** Expiry by this process's monotonic clock: the waiter is deleted then, unless it polls again. */
  untilMs: number;
  /** The znode that it watches. */
  watched: string | null;
}

/** The wait queue as one request sees it. */
export interface Place {
  readonly waiters: readonly string[];
  /** The index of the request's own waiter; -1 if it has none. */
  readonly at: number;
  /** The number of waiters before it. */
  readonly ahead: number;
}

/** The queue of a request that has not read it. */
export const NOWHERE: Place = { waiters: [], at: -1, ahead: 0 };

/** Reads the queue after the earlier requests on the same connection. */
export async function readPlace(talk: Talk, grant: Grant): Promise<Place> {
  return placeOf(await talk.waiters(grant), grant.leaseId);
}

function placeOf(waiters: readonly string[], leaseId: string): Place {
  const prefix = waiterPrefix(contenderOf(leaseId));
  const at = waiters.findIndex((name) => name.startsWith(prefix));
  return { waiters, at, ahead: at < 0 ? waiters.length : at };
}

/**
 * Unlike other stores, this has no upper bound on awaited waiters: the waiters of dead clients are
 * deleted with their sessions, so no queue stalls for longer.
 */
export function reservedForMs(ahead: number): number {
  return ahead * RESERVED_MS;
}

/**
 * The number of locks for which this client remembers since when they are free. The reservation of
 * others restarts.
 */
const MOST_REMEMBERED = 2_000;
const LOOK_TIMEOUT_MS = 5_000;

export class WaitQueue {
  readonly #freeSince = new Recent<{ readonly change: string; readonly sinceMs: number }>(
    MOST_REMEMBERED,
  );

  constructor(
    readonly clock: Clock,
    readonly waiters: Own<OwnWaiter>,
    readonly watches: Watches,
  ) {}

  /** Tracks the waiter of this request, which exists or is about to, until its expiry. */
  keep(id: string, { namespace, resource, leaseId, queueMs = 0 }: AcquireRequest): void {
    const untilMs = this.clock.monotonic() + Math.min(queueMs, LONGEST_WAITER_MS);
    const known = this.waiters.get(id);
    // Never shortens the wait.
    if (known) known.untilMs = Math.max(known.untilMs, untilMs);
    else {
      this.waiters.put({ id, grant: { namespace, resource, leaseId }, untilMs, watched: null });
    }
  }

  /** Adds a waiter at the end of the queue. */
  async leave(talk: Talk, id: string, request: AcquireRequest, doubt: Doubt): Promise<void> {
    this.keep(id, request);
    const folder = talk.paths.queue(request);
    const create = `${folder}/${waiterPrefix(contenderOf(request.leaseId))}`;
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

  /** Removes a waiter. */
  async withdraw(talk: Talk, id: string, key: Key, { waiters, at }: Place): Promise<void> {
    await remove(talk, key, waiters.slice(Math.max(at, 0), at + 1));
    this.#forget(id);
  }

  /** Called after a grant: removes the waiter and those before it, which were passed over. */
  async served(talk: Talk, id: string, key: Key, { waiters, at }: Place): Promise<void> {
    await remove(talk, key, waiters.slice(0, at + 1));
    this.#forget(id);
  }

  /** Returns how long a free lock is still reserved, given the number of earlier waiters. */
  async keptMs(talk: Talk, key: Key, { stat }: Seen, ahead: number): Promise<number> {
    if (!stat || ahead === 0) return 0;
    const nowMs = this.clock.monotonic();
    const sinceMs = this.#seenFree(talk.paths.lock(key), stat.pzxid.toString("hex"), nowMs);
    const saidMs = stat.pzxid.equals(stat.mzxid) ? (await talk.sync()) - timeOf(stat) : 0;
    const leftMs = reservedForMs(ahead) - Math.max(nowMs - sinceMs, saidMs);
    return Math.max(0, Math.ceil(leftMs));
  }

  /**
   * Notifies the waiter from now on when it may have become the head of the queue.
   * @param first the holder of the lock; undefined if free
   * @returns whether the waiter is still blocked
   */
  async wait(talk: Talk, id: string, place: Place, first: string | undefined): Promise<boolean> {
    const waiter = this.waiters.get(id);
    if (!waiter) return false;
    const before = place.waiters[place.ahead - 1];
    return (await this.#watch(talk, waiter, before)) === (before ?? first);
  }

  /**
   * @param before the waiter before it; undefined if it is the first, and watches the lock
   * @returns what blocks it: the holder (empty: none), or that waiter (null: gone)
   */
  async #watch(talk: Talk, waiter: OwnWaiter, before: string | undefined): Promise<string | null> {
    const { link, deadlineMs, paths } = talk;
    const { id, grant } = waiter;
    if (before === undefined) {
      const path = paths.lock(grant);
      this.#leaveWatch(waiter, path);
      return this.watches.stand(path, id, {
        set: async (fire) => {
          const found = await orNull(link.getChildren(path, deadlineMs, fire));
          return found && (inOrder(found.children)[0] ?? "");
        },
        fired: () => this.#notify(waiter, path),
      });
    }
    const path = `${paths.queue(grant)}/${before}`;
    this.#leaveWatch(waiter, path);
    return this.watches.stand(path, id, {
      set: async (fire) => (await orNull(link.getData(path, deadlineMs, fire))) && before,
      fired: () => void this.#moveUp(talk, waiter, path),
    });
  }

  /**
   * Called when the waiter before this one is gone. Notifies this waiter only if nothing blocks it any
   * more.
   */
  async #moveUp(before: Talk, waiter: OwnWaiter, fired: string): Promise<void> {
    let watched: string | null = fired;
    // Its waiter has given up meanwhile, or has polled.
    const isOver = () => watched === null || waiter.watched !== watched;
    if (isOver()) return;
    const talk = before.later(LOOK_TIMEOUT_MS);
    try {
      for (;;) {
        const place = await readPlace(talk, waiter.grant);
        if (isOver()) return;
        if (place.at < 0) break;
        if (await this.#watch(talk, waiter, place.waiters[place.at - 1])) return;
        if (place.at === 0) break;
        watched = waiter.watched;
      }
    } catch {
      // The waiter's own poll finds out.
    }
    this.#notify(waiter, waiter.watched);
  }

  #notify(waiter: OwnWaiter, path: string | null): void {
    if (path === null || waiter.watched !== path) return;
    const { namespace, resource, leaseId } = waiter.grant;
    const wakes = grantIdOf(leaseId);
    this.watches.notify(namespace, { type: "changed", namespace, resource, wakes });
  }

  #leaveWatch(waiter: OwnWaiter, next: string | null): void {
    if (waiter.watched !== null && waiter.watched !== next) {
      this.watches.leave(waiter.watched, waiter.id);
    }
    waiter.watched = next;
  }

  #forget(id: string): void {
    const waiter = this.waiters.get(id);
    if (waiter) this.#leaveWatch(waiter, null);
    this.waiters.forget(id);
  }

  /**
   * @param change the change by which the last contender left
   */
  #seenFree(lock: string, change: string, nowMs: number): number {
    const known = this.#freeSince.get(lock);
    const sinceMs = known?.change === change ? known.sinceMs : nowMs;
    this.#freeSince.set(lock, { change, sinceMs });
    return sinceMs;
  }
}

/** Missing ones are ignored. */
async function remove(talk: Talk, key: Key, waiters: readonly string[]): Promise<void> {
  const folder = talk.paths.queue(key);
  await Promise.all(
    waiters.map((name) => orNull(talk.link.remove(`${folder}/${name}`, -1, talk.deadlineMs))),
  );
}
