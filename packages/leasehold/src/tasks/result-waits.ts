/**
 * Waits for the ends of tasks. All waits of a namespace share one subscription and one read at a time, of all tasks that
 * are to be read:
 *
 *   result(id) ─▶ subscribe ─▶ read, and ask to be notified ─▶ ended: settled
 *                    │                  ▲  └─▶ unfinished: pause, twice as long each time
 *                    └── resync, ended ─┘◀───────┘
 *
 * Nothing is lost. A notification that comes during a read causes another one, and so does a new subscription. A task
 * that ends just while the store learns that it is awaited may end without a notification: the first pauses are short.
 * A store without notifications is read as often as the pauses say.
 */
import { type Env, jittered, nextTurn, sleep, type Timer, zip } from "../env/index.js";
import {
  ClosedError,
  LeaseholdError,
  StoreUnavailableError,
  TimedOutError,
} from "../lease/index.js";
import type { TaskResult, TaskState, TaskStore } from "./port.js";
import { isUnfinished } from "./record.js";

/** The store notifies for this long after a read. Each read asks anew. */
const NOTIFY_MS = 60_000;
const FIRST_PAUSE_MS = 50;
/** By the way in which the store watches. */
const LONGEST_PAUSE_MS = { push: 10_000, poll: 1_000 } as const;
const READ_AT_ONCE = 200;
const RESUBSCRIBE_MS = 1_000;
/** How long the subscription stays after the last wait. */
const LINGER_MS = 10_000;

export interface ResultWaitOptions {
  /** Default: no limit. The task is read once, however short it is. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface Waiter {
  readonly settle: (result: TaskResult) => void;
  readonly fail: (error: unknown) => void;
  /** Called after each read, with the error of one that failed. */
  readonly noteRead: (error: unknown) => void;
}

interface Wait {
  readonly id: string;
  readonly waiters: Set<Waiter>;
  pauseMs: number;
  /** When it is read next. */
  atMs: number;
  /** A notification came since the last read began. */
  hasNews: boolean;
}

type Source = Pick<TaskStore, "capabilities" | "results" | "watchResults">;

export class ResultWaits {
  readonly #store: Source;
  readonly #namespace: string;
  readonly #env: Env;
  readonly #waits = new Map<string, Wait>();
  readonly #closing = new AbortController();
  #isReading = false;
  #timer: Timer | undefined;
  #linger: Timer | undefined;
  #following: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined;

  constructor(store: Source, namespace: string, env: Env) {
    [this.#store, this.#namespace, this.#env] = [store, namespace, env];
  }

  /**
   * Resolves when the task has ended, or does not exist.
   * @throws TIMED_OUT, CLOSED; the signal's reason; an error of the store that a repetition would only meet again
   */
  async of(id: string, { timeoutMs, signal }: ResultWaitOptions = {}): Promise<TaskResult> {
    if (this.#closing.signal.aborted) throw new ClosedError();
    signal?.throwIfAborted();
    const { clock } = this.#env;
    return new Promise((resolve, reject) => {
      let hasRead = false;
      let isLate = false;
      let failure: unknown;
      const leave = () => {
        timer?.cancel();
        signal?.removeEventListener("abort", onAbort);
        this.#leave(id, waiter);
      };
      const fail = (error: unknown) => {
        leave();
        reject(error);
      };
      const onAbort = () => fail(signal?.reason);
      const timeOut = () => {
        isLate = true;
        const what = `task ${id} has not ended`;
        if (hasRead) fail(new TimedOutError(what, timeoutMs ?? 0, failure));
      };
      const waiter: Waiter = {
        settle(result) {
          leave();
          resolve(result);
        },
        fail,
        noteRead(error) {
          [hasRead, failure] = [true, error];
          if (isLate) timeOut();
        },
      };
      const isLimited = timeoutMs !== undefined && timeoutMs !== Number.POSITIVE_INFINITY;
      const timer = isLimited ? clock.timer(timeoutMs, timeOut) : undefined;
      signal?.addEventListener("abort", onAbort);
      this.#join(id, waiter);
    });
  }

  /** Ends every wait with CLOSED, and the subscription. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const { waiters } of this.#waits.values()) {
      for (const { fail } of waiters) fail(new ClosedError());
    }
    this.#timer?.cancel();
    await this.#unfollow();
  }

  #join(id: string, waiter: Waiter): void {
    const name = id;
    const atMs = this.#env.clock.monotonic();
    const known = this.#waits.get(name);
    const wait = known ?? { id, waiters: new Set(), pauseMs: 0, atMs, hasNews: false };
    this.#waits.set(name, wait);
    wait.waiters.add(waiter);
    this.#linger?.cancel();
    this.#follow();
    this.#readSoon(wait);
  }

  #leave(id: string, waiter: Waiter): void {
    const name = id;
    const wait = this.#waits.get(name);
    if (!wait?.waiters.delete(waiter) || wait.waiters.size > 0) return;
    this.#waits.delete(name);
    if (this.#waits.size > 0 || this.#closing.signal.aborted) return;
    this.#timer?.cancel();
    this.#linger?.cancel();
    const { clock } = this.#env;
    this.#linger = clock.timer(LINGER_MS, () => void this.#unfollow(), { background: true });
  }

  /** Reads it in the next turn of the event loop, with all others that are to be read then. */
  #readSoon(wait: Wait): void {
    wait.atMs = this.#env.clock.monotonic();
    wait.pauseMs = FIRST_PAUSE_MS;
    wait.hasNews = true;
    void nextTurn().then(() => this.#read());
  }

  async #read(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      for (let due = this.#due(); due.length > 0; due = this.#due()) await this.#readThese(due);
    } finally {
      this.#isReading = false;
    }
    this.#arm();
  }

  #due(): Wait[] {
    if (this.#closing.signal.aborted) return [];
    const nowMs = this.#env.clock.monotonic();
    const due: Wait[] = [];
    for (const wait of this.#waits.values()) {
      if (wait.atMs <= nowMs && due.push(wait) === READ_AT_ONCE) break;
    }
    return due;
  }

  async #readThese(waits: readonly Wait[]): Promise<void> {
    const namespace = this.#namespace;
    for (const wait of waits) wait.hasNews = false;
    let results: readonly TaskResult[];
    try {
      const keys = waits.map(({ id }) => ({ namespace, id }));
      results = await this.#store.results(keys, { notifyMs: NOTIFY_MS });
    } catch (error) {
      return this.#noteFailure(waits, error);
    }
    for (const [wait, result] of zip(waits, results)) {
      if (isLeftOut(result)) continue;
      if (isUnfinished(result.state as TaskState)) this.#pause(wait);
      else for (const { settle } of wait.waiters) settle(result);
    }
    for (const { waiters } of waits) for (const { noteRead } of waiters) noteRead(undefined);
  }

  #noteFailure(waits: readonly Wait[], error: unknown): void {
    const retries = error instanceof LeaseholdError && error.retryable;
    const retryAfterMs = error instanceof StoreUnavailableError ? (error.retryAfterMs ?? 0) : 0;
    if (retries)
      this.#env.logger.debug({ err: error }, "could not read results; reading them again");
    for (const wait of waits) {
      this.#pause(wait, retryAfterMs);
      for (const { fail, noteRead } of wait.waiters) (retries ? noteRead : fail)(error);
    }
  }

  /** Until it is read again; not at all if there is news of it. */
  #pause(wait: Wait, atLeastMs = 0): void {
    if (wait.hasNews && atLeastMs === 0) return;
    const { clock, random } = this.#env;
    const pauseMs = Math.max(atLeastMs, jittered(random, wait.pauseMs, 0.25));
    wait.atMs = clock.monotonic() + pauseMs;
    wait.pauseMs = Math.min(2 * wait.pauseMs, LONGEST_PAUSE_MS[this.#store.capabilities.watch]);
  }

  #arm(): void {
    this.#timer?.cancel();
    if (this.#waits.size === 0 || this.#closing.signal.aborted) return;
    const { clock } = this.#env;
    let atMs = Number.POSITIVE_INFINITY;
    for (const wait of this.#waits.values()) atMs = Math.min(atMs, wait.atMs);
    const leftMs = Math.max(0, atMs - clock.monotonic());
    this.#timer = clock.timer(leftMs, () => void this.#read());
  }

  #follow(): void {
    if (this.#following) return;
    const stop = new AbortController();
    this.#following = { stop, ended: this.#followUntil(stop.signal) };
  }

  async #unfollow(): Promise<void> {
    this.#linger?.cancel();
    const following = this.#following;
    this.#following = undefined;
    following?.stop.abort();
    await following?.ended;
  }

  async #followUntil(signal: AbortSignal): Promise<void> {
    const { clock, random, logger } = this.#env;
    while (!signal.aborted) {
      try {
        for await (const event of this.#store.watchResults(this.#namespace, { signal })) {
          if (event.type === "resync")
            for (const wait of this.#waits.values()) this.#readSoon(wait);
          else {
            const wait = this.#waits.get(event.id);
            if (wait) this.#readSoon(wait);
          }
        }
      } catch (err) {
        if (signal.aborted) return;
        logger.warn({ err }, "watch of results broke; subscribing again");
      }
      const pauseMs = jittered(random, RESUBSCRIBE_MS, 0.5);
      await sleep(clock, pauseMs, { signal, background: true }).catch(() => {});
    }
  }
}

/** Its output or error did not fit. It is read again at once, as one of the first. */
function isLeftOut({ state, output, error }: TaskResult): boolean {
  if (state === "done") return output === undefined;
  return (state === "dead" || state === "cancelled") && error === undefined;
}
