/**
 * The wait queue of lease/queue.ts. A waiter is an ephemeral znode in a folder beside the lock. It is not
 * a contender below the lock: the first contender holds the lock, even while its process is paused or dead.
 *
 *   refused ─▶ add waiter ─▶ read again: still held, or reserved for waiters ahead ─▶ watch, return
 *
 *   lock       [contender]            a release fires only the first waiter's watch
 *                    ▲
 *   queue      t1 ───┘ ◀── t2 ◀── t3  the others watch the waiter ahead of them: when that is gone, the
 *                                     client watches the next one ahead, without polling
 *
 * Before an acquire returns a grant, it deletes its own waiter and all waiters ahead of it. Those had
 * their reservation and did not attempt.
 *
 * A free lock is reserved for RESERVED_MS for each waiter ahead, counted from when the lock became free.
 * If one transaction deleted the last contender and wrote the lock's znode (a release, an expired TTL),
 * the leader's clock gives that time. Otherwise, as at the end of a session, the time counts from when this
 * client first saw the lock free. That is later, so a reservation may last longer, but never shorter.
 *
 * Failures. When the session of a dead client ends, ZooKeeper deletes its waiters. Until then, the waiters
 * behind them wait until their reservation has passed. A client whose session ended starts again at the end
 * of the queue. After a lost response, the next read finds the waiter by its UUID. A new connection has no
 * watches, so every waiter of this client polls once.
 */

import { type Clock, grantIdOf } from "../../env/index.js";
import { type AcquireRequest, type Grant, type Key, waiterOf } from "../../lease/index.js";
import type { Own } from "../../store-kit/own.js";
import { Sightings } from "../../store-kit/sightings.js";
import { exact } from "./connection-driver.js";
import { contenderOf, inOrder, waiterPrefix } from "./keys.js";
import { encode } from "./records.js";
import { type Call, type LockState, orNull, type Talk, timeOf, written } from "./transactions.js";
import type { Watches } from "./watch.js";

/** A waiter of this client. Its znode exists, or is about to be created. */
export interface OwnWaiter {
  readonly id: string;
  readonly grant: Grant;
  /**
   * Expiry by this process's monotonic clock. The client deletes the waiter then, unless its caller attempts
   * again before.
   */
  untilMs: number;
  /** Path of the znode that it watches; null if none. */
  watched: string | null;
}

/** The wait queue, and the position of one request in it. */
export interface QueuePosition {
  readonly waiters: readonly string[];
  /** The index of the request's own waiter; -1 if it has none. */
  readonly ownIndex: number;
  /** The number of waiters ahead of it. */
  readonly ahead: number;
}

/** The position of a request that has not read the queue. */
export const UNREAD: QueuePosition = { waiters: [], ownIndex: -1, ahead: 0 };

/** Reads the queue. The server does so after all earlier requests of this connection. */
export async function readPosition(talk: Talk, grant: Grant): Promise<QueuePosition> {
  const waiters = await talk.waiters(grant);
  const prefix = waiterPrefix(contenderOf(grant.leaseId));
  const ownIndex = waiters.findIndex((name) => name.startsWith(prefix));
  return { waiters, ownIndex, ahead: ownIndex < 0 ? waiters.length : ownIndex };
}

/** Timeout for moving to the next waiter ahead. */
const MOVE_UP_TIMEOUT_MS = 5_000;

export class WaitQueue {
  readonly #sightings = new Sightings();

  constructor(
    readonly clock: Clock,
    readonly waiters: Own<OwnWaiter>,
    readonly watches: Watches,
  ) {}

  /** Tracks the waiter of this request until its expiry, or extends the expiry of a tracked one. */
  track(id: string, request: AcquireRequest): void {
    const untilMs = waiterOf(request, this.clock.monotonic())?.expiresAtMs ?? 0;
    const known = this.waiters.get(id);
    if (known) known.untilMs = Math.max(known.untilMs, untilMs);
    else {
      const { namespace, resource, leaseId } = request;
      this.waiters.put({ id, grant: { namespace, resource, leaseId }, untilMs, watched: null });
    }
  }

  /** Adds a waiter at the end of the queue. */
  async add({ talk, id, doubt }: Call, request: AcquireRequest): Promise<void> {
    this.track(id, request);
    const folder = talk.paths.queue(request);
    const create = `${folder}/${waiterPrefix(contenderOf(request.leaseId))}`;
    const data = encode({ holder: request.holder });
    await talk.below(folder, () =>
      written(doubt, talk.commit([{ create, data, ephemeral: true }])),
    );
  }

  /** Removes the waiter, if there is one, of a request that has given up or expired. */
  withdraw(talk: Talk, id: string, key: Key, { waiters, ownIndex }: QueuePosition): Promise<void> {
    return this.#remove(talk, id, key, waiters.slice(Math.max(ownIndex, 0), ownIndex + 1));
  }

  /** Called after a grant: removes the waiter and all waiters ahead of it, which did not attempt in time. */
  onGranted(talk: Talk, id: string, key: Key, { waiters, ownIndex }: QueuePosition): Promise<void> {
    return this.#remove(talk, id, key, waiters.slice(0, ownIndex + 1));
  }

  /** Ignores waiters that are already gone. */
  async #remove(talk: Talk, id: string, key: Key, names: readonly string[]): Promise<void> {
    const folder = talk.paths.queue(key);
    await Promise.all(
      names.map((name) => orNull(talk.link.remove(`${folder}/${name}`, -1, talk.deadlineMs))),
    );
    const waiter = this.waiters.get(id);
    if (waiter) this.#leaveWatch(waiter, null);
    this.waiters.forget(id);
  }

  /**
   * Returns for how long a lock without contenders has been free: never longer than it has.
   * @param nowMs the leader's time
   */
  freeForMs(talk: Talk, key: Key, { stat }: LockState, nowMs: number): number {
    if (!stat) return 0;
    const zxid = exact(stat.pzxid);
    const path = talk.paths.lock(key);
    const seenMs = this.#sightings.freeForMs(path, zxid, zxid, this.clock.monotonic());
    // One transaction removed the contender and wrote the lock: its time is when the lock became free.
    return stat.pzxid.equals(stat.mzxid) ? Math.max(seenMs, nowMs - timeOf(stat)) : seenMs;
  }

  /**
   * From now on, notifies the waiter when it may have become the head of the queue.
   * @param first the contender that holds the lock; undefined if the lock is free
   * @returns whether the waiter is still blocked
   */
  async wait(
    talk: Talk,
    id: string,
    position: QueuePosition,
    first: string | undefined,
  ): Promise<boolean> {
    const waiter = this.waiters.get(id);
    if (!waiter) return false;
    const waiterAhead = position.waiters[position.ahead - 1];
    return (await this.#watch(talk, waiter, waiterAhead)) === (waiterAhead ?? first);
  }

  /**
   * Watches the waiter ahead; for the head of the queue, the lock.
   * @param waiterAhead undefined for the head of the queue
   * @returns what blocks the waiter: the waiter ahead; for the head of the queue the lock's first contender
   *   (`""` if there is none); null if the watched znode does not exist
   */
  async #watch(
    talk: Talk,
    waiter: OwnWaiter,
    waiterAhead: string | undefined,
  ): Promise<string | null> {
    const { link, deadlineMs, paths } = talk;
    const { id, grant } = waiter;
    if (waiterAhead === undefined) {
      const path = paths.lock(grant);
      this.#leaveWatch(waiter, path);
      return this.watches.set(path, id, {
        set: async (fire) => {
          const found = await orNull(link.getChildren(path, deadlineMs, fire));
          return found && (inOrder(found.children)[0] ?? "");
        },
        fired: () => this.#notify(waiter, path),
      });
    }
    const path = `${paths.queue(grant)}/${waiterAhead}`;
    this.#leaveWatch(waiter, path);
    return this.watches.set(path, id, {
      set: async (fire) => (await orNull(link.getData(path, deadlineMs, fire))) && waiterAhead,
      fired: () => void this.#moveUp(talk, waiter, path),
    });
  }

  /**
   * Called when the waiter ahead of this one is gone. Notifies this waiter only if nothing blocks it any
   * more.
   */
  async #moveUp(earlier: Talk, waiter: OwnWaiter, firedPath: string): Promise<void> {
    let watched: string | null = firedPath;
    // Meanwhile the waiter has given up, or its own attempt has set another watch.
    const isOver = () => watched === null || waiter.watched !== watched;
    if (isOver()) return;
    const talk = earlier.later(MOVE_UP_TIMEOUT_MS);
    try {
      for (;;) {
        const { waiters, ownIndex } = await readPosition(talk, waiter.grant);
        if (isOver()) return;
        if (ownIndex < 0) break;
        if (await this.#watch(talk, waiter, waiters[ownIndex - 1])) return;
        if (ownIndex === 0) break;
        watched = waiter.watched;
      }
    } catch {
      // The notification below makes the waiter attempt by itself, and report the failure if it lasts.
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
}
