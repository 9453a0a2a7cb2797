/**
 * Claims that wait. Any number of callers share one subscription to the store and one poll behind
 * it, and a notification wakes only as many of them as there may be tasks:
 *
 *   store ── ready(queue) ──▶ group of equal queues, kinds and versions ──▶ its longest waiter claims
 *                             (a few groups at once,                │ got all it could take
 *                              the others follow)                   ▼
 *                                                          the next waiter claims, and so on
 *
 * A notification names no kind, so it concerns every group with the queue. With a thousand groups, as many claims
 * at once would delay all other calls of the store: a few claim, and each that ends wakes the next group.
 *
 * A claim that comes back with less than its limit has emptied the queue for its group, so the chain
 * stops there. Nothing is lost between a claim and the wait after it: a notification that finds the
 * whole group claiming is kept for the first caller that waits again. If a woken caller has gone, the next
 * one is woken. The poll finds tasks without a notification (a retry becomes due, one was missed). Where a rate keeps tasks
 * back, the store says until when; and it announces tasks that are scheduled for soon.
 */
import { type Env, jittered, nextTurn, sleep, type Timer, zip } from "../env/index.js";
import type { ClaimedTask, ClaimOptions, ClaimOutcome, ClaimRequest, TaskStore } from "./port.js";

/** A task that becomes due without an announcement is found after at most this time, plus jitter. */
const POLL_MS = 1_000;
const RESUBSCRIBE_MS = 1_000;
/** Claims by notification that are under way at once, and that begin in one turn of the event loop. */
const AWAKE_AT_ONCE = 4;
/** Timers for tasks that become due. */
const MOST_ANNOUNCED = 1_000;
const NOTHING: ClaimOutcome = { status: "claimed", tasks: [] };

/** Callers that want the same tasks. */
interface Group {
  readonly queues: ReadonlySet<string>;
  /** Callers in the group, those that claim just now included. */
  members: number;
  /** In the order in which they began to wait; each ends one wait, by a notification or without. */
  readonly waiting: Set<(notified: boolean) => void>;
  /** A notification came while no member was waiting. */
  notified: boolean;
  /** Until a rate that keeps its tasks back lets the next ones start. */
  rate: Timer | undefined;
}

export interface ReadyOptions extends ClaimOptions {
  /**
   * The claimer may send the same claimId again after its connection broke. Default true: the
   * tasks of that answer must then not be requeued.
   */
  readonly repeatable?: boolean;
}

/** What a store is asked by those who wait. */
type Claims = Pick<TaskStore, "capabilities" | "claim" | "requeue" | "watch">;

export class Ready {
  readonly #store: Claims;
  readonly #namespace: string;
  readonly #env: Env;
  readonly #groups = new Map<string, Group>();
  /** Groups with a notification that has woken no waiter yet, in order. */
  readonly #notified = new Set<Group>();
  #awake = 0;
  /** Until announced tasks are due. */
  readonly #announced = new Set<Timer>();
  readonly #closing = new AbortController();
  #following: Promise<void> | undefined;
  #poll: Timer | undefined;

  /** Subscribes at the first wait. */
  constructor(store: Claims, namespace: string, env: Env) {
    this.#store = store;
    this.#namespace = namespace;
    this.#env = env;
  }

  /**
   * Claims; while there is nothing to claim, waits for up to `request.waitMs` (default 0) and claims
   * again. Answers no tasks when the time is over, the signal aborts or this object is closed. Tasks
   * that were claimed for a caller whose signal has aborted meanwhile are requeued, unless the
   * claim may be repeated: a repetition finds them, and without one their leases expire.
   */
  async claim(
    request: ClaimRequest,
    { repeatable = true, ...options }: ReadyOptions = {},
  ): Promise<ClaimOutcome> {
    if (this.#store.capabilities.remoteWait) return this.#store.claim(request, options);
    const { waitMs = 0, ...once } = request;
    const { signal } = options;
    const { clock } = this.#env;
    const beganMs = clock.monotonic();
    const deadlineMs = beganMs + waitMs;
    let waitedMs = 0;
    const leave = waitMs > 0 && !this.#closing.signal.aborted ? this.#enter(request) : undefined;
    let claim = () => this.#store.claim(once, options);
    try {
      for (;;) {
        const outcome = await claim();
        if (outcome.status === "failed") return outcome;
        if (outcome.tasks.length > 0) {
          if (signal?.aborted && !repeatable) {
            await this.#requeue(outcome.tasks);
            return NOTHING;
          }
          if (leave && outcome.tasks.length >= request.limit) this.#notify(leave.group);
          return waitedMs === 0 ? outcome : { ...outcome, waitedMs };
        }
        if (leave && outcome.retryInMs !== undefined)
          this.#notifyIn(leave.group, outcome.retryInMs);
        const leftMs = deadlineMs - clock.monotonic();
        if (
          !leave ||
          leftMs <= 0 ||
          !(await this.#awaitNotification(leave.group, leftMs, signal))
        ) {
          return outcome;
        }
        waitedMs = clock.monotonic() - beganMs;
        claim = () => this.#claimAwake(leave.group, once, options);
      }
    } finally {
      leave?.();
    }
  }

  /** Ends every wait, with no tasks, and the subscription. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#poll?.cancel();
    for (const timer of this.#announced) timer.cancel();
    for (const { rate } of this.#groups.values()) rate?.cancel();
    for (const { waiting } of this.#groups.values()) for (const end of waiting) end(false);
    await this.#following;
  }

  async #claimAwake(
    group: Group,
    request: ClaimRequest,
    options: ClaimOptions,
  ): Promise<ClaimOutcome> {
    try {
      const outcome = await this.#store.claim(request, options);
      // A caller that leaves before the store has looked for it: the task is still there for the next one.
      const isEmpty = outcome.status === "failed" || outcome.tasks.length === 0;
      if (isEmpty && options.signal?.aborted) this.#notify(group);
      return outcome;
    } finally {
      this.#claimed();
    }
  }

  #enter({ queues, kinds, versions = {} }: ClaimRequest): { (): void; group: Group } {
    const taken = kinds && [...kinds].sort().map((kind) => [kind, versions[kind]]);
    const name = JSON.stringify([[...queues].sort(), taken]);
    let group = this.#groups.get(name);
    if (!group) {
      group = {
        queues: new Set(queues),
        members: 0,
        waiting: new Set(),
        notified: false,
        rate: undefined,
      };
      this.#groups.set(name, group);
    }
    group.members += 1;
    if (this.#store.capabilities.watch === "push") this.#following ??= this.#follow();
    this.#arm();
    const leave = () => {
      group.members -= 1;
      if (group.members > 0) return;
      group.rate?.cancel();
      this.#groups.delete(name);
      this.#notified.delete(group);
    };
    return Object.assign(leave, { group });
  }

  /** True at a notification; false when the time is over, the caller has gone or we are closed. */
  async #awaitNotification(
    group: Group,
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<boolean> {
    const gone = () => signal?.aborted || this.#closing.signal.aborted;
    if (gone()) return false;
    const notified = await new Promise<boolean>((resolve) => {
      const end = (notified: boolean) => {
        group.waiting.delete(end);
        timer.cancel();
        signal?.removeEventListener("abort", over);
        resolve(notified);
      };
      const over = () => end(false);
      const timer = this.#env.clock.timer(timeoutMs, over);
      signal?.addEventListener("abort", over);
      group.waiting.add(end);
      if (group.notified) this.#notify(group);
    });
    if (!notified || !gone()) return notified;
    this.#notify(group);
    this.#claimed();
    return false;
  }

  /** Wakes the longest waiter of the group, or the first that waits again, after those of groups notified before. */
  #notify(group: Group): void {
    group.notified = false;
    this.#notified.add(group);
    this.#wake();
  }

  /** Every group that takes tasks of the queue; default: of any. */
  #notifyAll(queue?: string): void {
    for (const group of this.#groups.values()) {
      if (queue === undefined || group.queues.has(queue)) this.#notify(group);
    }
  }

  /** Tasks of the queue become due. Where too many are announced, the poll finds the last ones. */
  #announce(queue: string, inMs: number): void {
    if (this.#announced.size >= MOST_ANNOUNCED || this.#closing.signal.aborted) return;
    const over = () => {
      this.#announced.delete(timer);
      this.#notifyAll(queue);
    };
    // A timer of Node.js may end a millisecond early, when the task is not due yet.
    const timer = this.#env.clock.timer(Math.ceil(inMs) + 1, over, { background: true });
    this.#announced.add(timer);
  }

  /** One timer for the whole group: its longest waiter claims first, and the others follow. */
  #notifyIn(group: Group, ms: number): void {
    if (group.rate || this.#closing.signal.aborted) return;
    const over = () => {
      group.rate = undefined;
      this.#notify(group);
    };
    group.rate = this.#env.clock.timer(ms, over, { background: true });
  }

  #wake(): void {
    for (const group of this.#notified) {
      if (this.#awake >= AWAKE_AT_ONCE) return;
      this.#notified.delete(group);
      const [end] = group.waiting;
      if (!end) group.notified = true;
      else {
        this.#awake += 1;
        end(true);
      }
    }
  }

  /** A woken caller has claimed, or has gone. The next one may be woken in the next turn of the event loop. */
  #claimed(): void {
    void nextTurn().then(() => {
      this.#awake -= 1;
      this.#wake();
    });
  }

  #arm(): void {
    const { clock, random } = this.#env;
    this.#poll ??= clock.timer(
      jittered(random, POLL_MS, 0.25),
      () => {
        this.#poll = undefined;
        this.#notifyAll();
        if (this.#groups.size > 0 && !this.#closing.signal.aborted) this.#arm();
      },
      { background: true },
    );
  }

  async #follow(): Promise<void> {
    const { clock, random, logger } = this.#env;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        for await (const event of this.#store.watch(this.#namespace, { signal })) {
          if (event.type === "ready" && event.inMs !== undefined) {
            this.#announce(event.queue, event.inMs);
          } else this.#notifyAll(event.type === "resync" ? undefined : event.queue);
        }
      } catch (err) {
        if (signal.aborted) return;
        logger.warn({ err }, "watch of tasks broke; subscribing again");
      }
      const pauseMs = jittered(random, RESUBSCRIBE_MS, 0.5);
      await sleep(clock, pauseMs, { signal, background: true }).catch(() => {});
    }
  }

  async #requeue(tasks: readonly ClaimedTask[]): Promise<void> {
    const namespace = this.#namespace;
    const outcomes = await this.#store.requeue(
      tasks.map(({ id, leaseId, token }) => ({ namespace, id, leaseId, token })),
    );
    for (const [{ id }, outcome] of zip(tasks, outcomes)) {
      if (outcome.status !== "failed") continue;
      // Its lease expires, which costs one TTL and nothing else.
      const fields = { err: outcome.error, id };
      this.#env.logger.warn(fields, "could not requeue a task whose claimer has gone");
    }
  }
}
