/**
 * What a waiter holds: its position in the store's wait queue, as far as it knows, and what wakes it; and
 * what the waiters of one client share: their local queue, and one subscription to the store.
 *
 *   attempt: held, `ahead` waiters before us ──▶ wait ──▶ attempt: notified, or the reservations ahead have passed, or a poll
 *                                                  │
 *                                                  └─ a notification for another waiter: one less is ahead;
 *                                                     if that one does not attempt, the resource is soon
 *                                                     reserved for us
 *
 * A release wakes the waiter at the head of the queue alone. The others see the notification too and
 * need not attempt. But the few behind the head attempt once the reservations ahead of them have passed
 * without another notification: the head may be dead.
 */
import { type Env, grantIdOf, jittered, type LeaseId, newLeaseId, sleep } from "../env/index.js";
import type { Abort } from "./aborting.js";
import type { Capabilities, LeaseStore } from "./port.js";
import { MOST_AWAITED, reservedForMs } from "./queue.js";

/** A waiter polls this often even if nothing wakes it. */
const POLL_MS = { push: 2_000, poll: 250 } as const;
/** A waiter far behind polls less often: this much longer for each waiter ahead, up to the longest. */
const [POLL_RATIO_PER_AHEAD, LONGEST_POLL_MS] = [0.125, 10_000];
/** A release that was being committed meanwhile notified no one: the first polls come soon. */
const FIRST_POLL_MS = 25;
/** The store keeps a position for this many polls: a slow answer does not lose it, a dead waiter does. */
const KEPT_POLLS = 2.5;
/** Just after the expiry: so that a rounding of clocks does not cost a second attempt. */
const AFTER_EXPIRY_MS = 1;
/** A subscription that broke is made anew after this long. */
const RESUBSCRIBE_MS = 1_000;

/** Another client holds it. */
export interface Held {
  readonly holder: string;
  readonly remainingMs: number | null;
  /** How many wait before us, where the store queues. */
  readonly ahead?: number;
}

/** Who wants a resource. */
export interface Contender {
  /** Each attempt is made under it; in the store's wait queue it names the position. */
  leaseId: LeaseId;
  /** How long the store keeps that position unless there is another attempt; 0: not at all. */
  readonly queueMs: number;
}

export class Waiter implements Contender {
  leaseId: LeaseId;
  queueMs = 0;
  readonly #env: Env;
  readonly #watch: Capabilities["watch"];
  readonly #wakeup = new Wakeup();
  #ahead = 0;
  /** Nothing can be lost before the first attempt. */
  #keptMs = Infinity;
  #notified = false;
  /** By the monotonic clock: when to attempt at the latest. */
  #attemptAtMs = 0;

  constructor(env: Env, watch: Capabilities["watch"], leaseId = newLeaseId(env.random)) {
    this.#env = env;
    this.#watch = watch;
    this.leaseId = leaseId;
  }

  /**
   * Before an attempt: how long the store is asked to keep the position this time.
   * @param leftMs the waiter stays no longer
   */
  stay(leftMs: number): void {
    this.#keptMs = KEPT_POLLS * this.#pollMs();
    this.queueMs = Math.max(1, Math.min(leftMs, this.#keptMs));
  }

  /** For {@link Notifications.subscribe}. */
  readonly notify: Notify = (wakes) => {
    if (wakes === undefined || wakes === grantIdOf(this.leaseId)) {
      this.#notified = true;
    } else {
      if (this.#ahead === 0) return;
      // Once the reservations of the waiters ahead have passed, the resource is reserved for us.
      const turnMs = reservedForMs(this.#ahead) + AFTER_EXPIRY_MS;
      const isNear = this.#ahead <= MOST_AWAITED;
      this.#ahead -= 1;
      if (!isNear) return;
      this.#attemptAtMs = Math.min(this.#attemptAtMs, this.#env.clock.monotonic() + turnMs);
    }
    this.#wakeup.set();
  };

  /**
   * Resolves when there is reason for another attempt; rejects with the signal's reason.
   * @param last the store's answer to the last attempt; null: none
   * @param attempts how many there have been
   * @param leftMs waits no longer
   */
  async untilNextAttempt(
    last: Held | null,
    attempts: number,
    leftMs: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, random } = this.#env;
    this.#ahead = last?.ahead ?? 0;
    // A release does not wake waiters behind the head: they cannot have missed one.
    const soonMs = this.#ahead > 0 ? Infinity : FIRST_POLL_MS * 2 ** attempts;
    // How far behind we are may be news: the store keeps the position for as long as it was asked to.
    const pollMs = Math.min(this.#pollMs(), soonMs, this.#keptMs / KEPT_POLLS);
    const pauseMs = jittered(random, pollMs, 0.25);
    const turnMs = (last?.remainingMs ?? Infinity) + AFTER_EXPIRY_MS;
    this.#attemptAtMs = clock.monotonic() + Math.min(pauseMs, turnMs, leftMs);
    for (;;) {
      const waitMs = this.#attemptAtMs - clock.monotonic();
      if (this.#notified || waitMs <= 0) break;
      await this.#wakeup.wait(this.#env, waitMs, signal);
    }
    this.#notified = false;
    signal.throwIfAborted();
  }

  #pollMs(): number {
    const ratio = Math.max(1, this.#ahead * POLL_RATIO_PER_AHEAD);
    return Math.min(POLL_MS[this.#watch] * ratio, LONGEST_POLL_MS);
  }
}

/** A flag that can be awaited: set by any number of notifications, cleared by the wait that saw it. */
export class Wakeup {
  #set = false;
  #resolve: (() => void) | undefined;

  readonly set = (): void => {
    this.#set = true;
    this.#resolve?.();
  };

  /** Resolves when set or after `timeoutMs`; rejects with the signal's reason. */
  async wait(env: Env, timeoutMs: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!this.#set) {
      await new Promise<void>((resolve, reject) => {
        const timer = env.clock.timer(timeoutMs, done);
        const onAbort = () => {
          timer.cancel();
          reject(signal.reason);
        };
        signal.addEventListener("abort", onAbort, { once: true });
        this.#resolve = done;
        function done() {
          timer.cancel();
          signal.removeEventListener("abort", onAbort);
          resolve();
        }
      }).finally(() => {
        this.#resolve = undefined;
      });
    }
    this.#set = false;
  }
}

/** A caller in the local queue. */
interface Queued {
  onTurn(): void;
  onFailure(error: unknown): void;
}

/**
 * The callers of one client, first in, first out for each resource. Only the head contends with other
 * clients: a hundred waiting callers cost the store what one does.
 */
export class LocalQueue {
  /** Who waits behind the head of each resource; null: there is only the head, as nearly always. */
  readonly #queues = new Map<string, Queued[] | null>();

  /** Whether a caller would wait for others of this client. */
  isBusy(resource: string): boolean {
    return this.#queues.has(resource);
  }

  /** Makes the caller the head if there is none. */
  enterIdle(resource: string): boolean {
    if (this.#queues.has(resource)) return false;
    this.#queues.set(resource, null);
    return true;
  }

  /**
   * Resolves when all callers before have left; rejects with the reason when aborted.
   * @param patient whether to stay while the head waits for an unavailable store
   */
  enter(resource: string, abort: Abort, patient: boolean): Promise<void> {
    abort.throwIfAborted();
    if (this.enterIdle(resource)) return Promise.resolve();
    const queue = this.#queues.get(resource) ?? [];
    this.#queues.set(resource, queue);
    const { signal } = abort;
    return new Promise((resolve, reject) => {
      const leave = (reason: unknown) => {
        signal.removeEventListener("abort", onAbort);
        queue.splice(queue.indexOf(queued), 1);
        reject(reason);
      };
      const onAbort = () => leave(signal.reason);
      const onTurn = () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      const queued = { onTurn, onFailure: patient ? () => {} : leave };
      queue.push(queued);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** The store has failed the head, which goes on; impatient callers behind it reject. */
  fail(resource: string, error: unknown): void {
    for (const queued of Array.from(this.#queues.get(resource) ?? [])) queued.onFailure(error);
  }

  /** The head leaves, with or without the resource; the next caller contends. */
  leave(resource: string): void {
    const next = this.#queues.get(resource)?.shift();
    if (next) next.onTurn();
    else this.#queues.delete(resource);
  }
}

/** @param wakes the only waiter with reason to attempt, by `grantIdOf`; undefined: all of them */
type Notify = (wakes?: string) => void;

/**
 * Notifications that a resource may be free, for all waiters of one client: one subscription to the
 * store while any of them waits, none otherwise.
 *
 * A subscription that breaks is made anew, and its first event is a `resync`, which wakes all waiters:
 * they find what they missed by their next attempts. No waiter relies on notifications; each also polls.
 */
export class Notifications {
  readonly #store: LeaseStore;
  readonly #namespace: string;
  readonly #env: Env;
  readonly #waiters = new Map<string, Set<Notify>>();
  #subscription: AbortController | undefined;

  constructor(store: LeaseStore, namespace: string, env: Env) {
    this.#store = store;
    this.#namespace = namespace;
    this.#env = env;
  }

  /** Calls `notify` on every notification about the resource until the returned function is called. */
  subscribe(resource: string, notify: Notify): () => void {
    let waiters = this.#waiters.get(resource);
    if (!waiters) {
      waiters = new Set();
      this.#waiters.set(resource, waiters);
    }
    waiters.add(notify);
    if (!this.#subscription) {
      this.#subscription = new AbortController();
      void this.#watch(this.#subscription.signal);
    }
    return () => {
      waiters.delete(notify);
      if (waiters.size > 0 || this.#waiters.get(resource) !== waiters) return;
      this.#waiters.delete(resource);
      if (this.#waiters.size > 0) return;
      this.#subscription?.abort();
      this.#subscription = undefined;
    };
  }

  /** Notifies the waiters for a resource: a lease of this very client has ended. */
  changed(resource: string, wakes?: string): void {
    for (const notify of this.#waiters.get(resource) ?? []) notify(wakes);
  }

  async #watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        for await (const event of this.#store.watch(this.#namespace, { signal })) {
          if (event.type === "changed") this.changed(event.resource, event.wakes);
          else for (const resource of this.#waiters.keys()) this.changed(resource);
        }
      } catch (error) {
        if (signal.aborted) return;
        this.#env.logger.warn({ err: error }, "watch broke; subscribing again");
      }
      await sleep(this.#env.clock, jittered(this.#env.random, RESUBSCRIBE_MS, 0.5), {
        signal,
      }).catch(() => {});
    }
  }
}
