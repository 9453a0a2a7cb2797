/**
 * A worker: claims tasks, runs their handlers under leases, reports what came of them.
 *
 *   claim ──▶ handler runs, the scheduler heartbeats ──▶ complete or fail, until acknowledged ──▶ claim
 *                    │                                        │
 *                    └── lease lost: signal aborts,           └── refused: a newer holder has the
 *                        nothing is reported                      task; our work does not count
 *
 *   close ──▶ no more claims ──▶ handlers may end within graceMs ──▶ signals abort, the rest is
 *                                                                    requeued
 *
 * Failure cases. *A claim without an answer* is repeated with the same claimId, which answers the
 * same tasks. *A completion without an answer* is repeated while the lease is trusted, heartbeats
 * going on meanwhile; the store answers a repeated one as it answered the first. *A worker that was
 * paused past its lease* finds its trust gone before it reports, and a report that left just before
 * is refused by token. *A handler that ignores its signal* loses its slot after `graceMs`: see
 * abandoned.ts. *A store that is slow to take reports* has no more than `concurrency` of them on
 * their way beside the handlers before claims wait too.
 */

import {
  Backoff,
  type Env,
  newLeaseId,
  sleep,
  type TraceContext,
  withTimeout,
} from "../env/index.js";
import {
  Aborting,
  ClosedError,
  checkInteger,
  checkKnown,
  checkNames,
  checkNewName,
  checkNumber,
  checkSignal,
  defaultTtlMs,
  failedOutcome,
  InvalidOptionError,
  instant,
  WorkerStuckError,
} from "../lease/index.js";
import { AbandonedHandlers } from "./abandoned.js";
import type { TaskHandler } from "./define.js";
import { drained } from "./draining.js";
import { declareAll, type LimitOptions, type WorkerLimits, workerLimits } from "./limit-client.js";
import type { ClaimRequest, TaskStore } from "./port.js";
import type { Ready } from "./ready.js";
import { LONGEST_RUN_MS } from "./settings.js";
import { TasksAtWork } from "./tasks-at-work.js";
import { laterVersions } from "./unhandled.js";
import { DEFAULT_GRACE_MS } from "./values.js";

/** Options of `tasks.work`. */
export interface WorkerOptions {
  /** How many tasks run at once. Default 8: handlers wait for I/O most of the time. */
  concurrency?: number;
  /** Taken from in order of priority over all of them. Default `["default"]`. */
  queues?: readonly string[];
  /**
   * The lease on each task, in milliseconds, renewed at a third of it. Default 30,000, or what the store allows that is
   * nearest: a dead worker's tasks are taken over within half a minute.
   */
  ttlMs?: number;
  /**
   * How long handlers may take to end, in milliseconds: `close()` waits as long before it aborts their signals, and a handler
   * whose task was lost or cancelled keeps its slot as long after its signal has aborted. What it does afterwards is up to
   * it: fence what it writes to. Default 5,000.
   */
  graceMs?: number;
  /**
   * How many handlers may go on without a slot, because they do not stop although their tasks are lost, cancelled or out of
   * time, 0 to 1,000. While there are more, the worker claims nothing; it says so in the log, and `done` rejects. Default:
   * `concurrency`, so that about twice as many handlers run at most.
   */
  maxAbandoned?: number;
  /** Limits of queues in the whole fleet, by the names of the queues. The worker declares them when it starts. Default: none. */
  queueLimits?: Readonly<Record<string, LimitOptions>>;
}

const OPTIONS: Readonly<Record<keyof WorkerOptions, true>> = {
  concurrency: true,
  queues: true,
  ttlMs: true,
  graceMs: true,
  maxAbandoned: true,
  queueLimits: true,
};

/** How long `drain` waits. */
export interface DrainOptions {
  /** How long to wait, in milliseconds. Default: no limit. */
  timeoutMs?: number;
  /** Ends the wait: the call rejects with its reason. Default: none. */
  signal?: AbortSignal;
}
const DRAIN_OPTIONS: Readonly<Record<keyof DrainOptions, true>> = { timeoutMs: true, signal: true };

/** What `drain` resolves to. */
export interface Drained {
  /** How many tasks this worker has reported as dead since the call. */
  readonly dead: number;
}

/** How the stores, clocks and identity of a worker are given. */
export interface WorkerContext {
  readonly store: TaskStore;
  readonly ready: Ready;
  readonly env: Env;
  readonly namespace: string;
  readonly holder: string;
  readonly onClosed: () => void;
}

/**
 * An idle worker's claim waits this long, and at most a quarter of the ttl: trust counts from before the wait where the store
 * does not say how long it was.
 */
const LONGEST_WAIT_MS = 2_000;
const CALL_TIMEOUT_MS = 5_000;
const RETRY = { firstMs: 100, longestMs: 5_000 };
/** The store holds a task that ran too long for this much longer, so that it can be reported. */
const REPORT_MS = 1_000;
/** Handlers whose signal has aborted get this long before their tasks are requeued regardless. */
const AFTER_ABORT_MS = 500;
/** Limit for requeueing all of them: if the store is unavailable, their leases expire instead. */
const GIVE_BACK_MS = 2_000;

/** `tasks.work()` calls it. Apart from the class, whose public type shows no constructor. */
export let workerOver: (
  context: WorkerContext,
  handlers: readonly TaskHandler[],
  options: WorkerOptions,
) => Worker;

/**
 * Claims tasks and runs their handlers until it is closed. Made by `leasehold.tasks.work(handlers, options)`.
 * @example
 * ```ts
 * import { connect, defineTask } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const mail = defineTask("mail");
 * await leasehold.tasks.enqueue(mail, { to: "ada@example.com" });
 * const worker = leasehold.tasks.work([mail.handle((data) => console.log("sent to", data))]);
 * console.log(worker.running);
 * await worker.close();
 * await leasehold.close();
 * ```
 */
export class Worker implements AsyncDisposable {
  static {
    workerOver = (context, handlers, options) => new Worker(context, handlers, options);
  }

  readonly #context: WorkerContext;
  readonly #work: TasksAtWork;
  readonly #abandoned: AbandonedHandlers;
  readonly #concurrency: number;
  readonly #queues: readonly string[];
  readonly #graceMs: number;
  /** What claims say of it. Older servers do not know it. */
  readonly #grace: Pick<ClaimRequest, "graceMs">;
  readonly #limits: WorkerLimits | null;
  readonly #stopping = new AbortController();
  readonly #claiming: Promise<void>;
  readonly #aborting = new Aborting();
  readonly #whenIdle = new Set<() => void>();
  /**
   * Resolves when the worker is closed. Rejects with WORKER_STUCK when more than `maxAbandoned` handlers go on although their
   * tasks are lost: only a restart of the process ends these. Until it is closed, the worker claims again once enough of them
   * have ended.
   */
  readonly done: Promise<void>;
  #slotFreed: (() => void) | undefined;
  #end = () => {};
  #closed: Promise<void> | undefined;

  private constructor(
    context: WorkerContext,
    handlers: readonly TaskHandler[],
    options: WorkerOptions,
  ) {
    checkKnown(options, OPTIONS);
    checkNewName("holder", context.holder);
    const { ttl } = context.store.capabilities;
    const { concurrency = 8, queues = ["default"], graceMs = 5_000 } = options;
    const { ttlMs = defaultTtlMs(ttl) } = options;
    checkInteger("concurrency", concurrency, 1, 1_000);
    checkNames("queues", queues);
    checkInteger("ttlMs", ttlMs, Math.max(100, ttl.minMs), ttl.maxMs);
    checkNumber("graceMs", graceMs, 0, Number.MAX_SAFE_INTEGER);
    const { maxAbandoned = concurrency } = options;
    checkInteger("maxAbandoned", maxAbandoned, 0, 1_000);
    let stuck = () => {};
    this.done = new Promise((resolve, reject) => {
      this.#end = resolve;
      stuck = () => reject(new WorkerStuckError(this.#abandoned.count));
    });
    this.#abandoned = new AbandonedHandlers(context.env, graceMs, maxAbandoned, stuck);
    // A program that does not look at it has the log.
    this.done.catch(() => {});
    const slotFreed = () => {
      this.#slotFreed?.();
      if (this.#work.running.length === 0) this.#noteIdle();
    };
    const { signal } = this.#stopping;
    const byName = byKind(handlers);
    this.#work = new TasksAtWork(context, byName, ttlMs, signal, this.#abandoned, slotFreed);
    this.#limits = workerLimits(context.store.limits, handlers, options.queueLimits ?? {});
    [this.#context, this.#concurrency] = [context, concurrency];
    this.#queues = queues;
    this.#graceMs = graceMs;
    const heldMs = Math.min(graceMs + REPORT_MS, LONGEST_RUN_MS);
    this.#grace = heldMs === DEFAULT_GRACE_MS ? {} : { graceMs: heldMs };
    this.#claiming = this.#claimUntilStopped();
  }

  /** How many handlers run now. */
  get running(): number {
    return this.#work.handling;
  }

  /**
   * Claims no more, lets handlers end within `graceMs`, then aborts their signals and requeues the
   * tasks of those that have not ended soon after: these are pending again at once, and count neither as
   * failed nor as crashed. Never rejects; the same promise each time.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close().finally(() => {
      this.#context.onClosed();
      this.#end();
    });
    return this.#closed;
  }

  /**
   * Waits until the worker's queues are empty: no task of its kinds is due there, and none runs, here or elsewhere. Tasks
   * and retries that are scheduled for later do not count, nor do tasks of later versions, which the worker leaves to others.
   * The worker goes on. A paused queue never becomes empty.
   * @throws TIMED_OUT, INVALID_OPTION; CLOSED if the worker is closed meanwhile; the signal's reason
   * @example
   * ```ts
   * import { connect, defineTask } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const mail = defineTask("mail");
   * await leasehold.tasks.enqueueAll(mail, [{ data: "ada" }, { data: "joan" }]);
   * const worker = leasehold.tasks.work([mail.handle((to) => console.log("sent to", to))]);
   * const { dead } = await worker.drain({ timeoutMs: 10_000 });
   * console.log("all are sent, but", dead);
   * await leasehold.close();
   * ```
   */
  async drain(options: DrainOptions = {}): Promise<Drained> {
    checkKnown(options, DRAIN_OPTIONS);
    const { timeoutMs = Number.POSITIVE_INFINITY, signal } = options;
    checkNumber("timeoutMs", timeoutMs, 0, Number.POSITIVE_INFINITY);
    if (signal !== undefined) checkSignal(signal);
    const { completer, kinds } = this.#work;
    const { versions = {} } = this.#work.versions;
    const deadBefore = completer.dead;
    const idle = () => this.#idle();
    const place = { ...this.#context, queues: this.#queues, kinds, versions, idle };
    await this.#aborting.run([this.#stopping.signal, signal], (abort) =>
      drained(place, timeoutMs, abort),
    );
    return { dead: completer.dead - deadBefore };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #idle(): Promise<void> {
    if (this.#work.running.length === 0) return;
    await new Promise<void>((resolve) => this.#whenIdle.add(resolve));
  }

  #noteIdle(): void {
    for (const resolve of this.#whenIdle) resolve();
    this.#whenIdle.clear();
  }

  async #close(): Promise<void> {
    this.#stopping.abort(new ClosedError("this worker"));
    this.#slotFreed?.();
    await this.#settled(this.#graceMs);
    for (const { lease } of this.#work.running) lease.interrupt(this.#stopping.signal.reason);
    await this.#settled(AFTER_ABORT_MS);
    const { clock, logger } = this.#context.env;
    const [handlers, graceMs] = [this.#work.handling + this.#abandoned.count, this.#graceMs];
    if (handlers > 0) logger.error({ handlers, graceMs }, "the work does not stop");
    const requeued = this.#work.running.map(({ lease }) => lease.end());
    await withTimeout(clock, GIVE_BACK_MS, Promise.all(requeued), () => {});
  }

  /** Until claiming and all handlers have ended, at most for this time. */
  async #settled(withinMs: number): Promise<void> {
    const ended = this.#claiming.then(() =>
      Promise.all(this.#work.running.map((task) => task.whenEnded())),
    );
    await withTimeout(this.#context.env.clock, withinMs, ended, () => {});
  }

  async #whenSlotFreed(): Promise<void> {
    const freed = new Promise<void>((resolve) => {
      this.#slotFreed = resolve;
    });
    if (!this.#abandoned.isStuck) return freed;
    // A process that has nothing else to do would end, and with success.
    await withTimeout(this.#context.env.clock, LONGEST_WAIT_MS, freed, () => {});
  }

  /** A server shows it to operators; one that is older refuses it. */
  async #reportStuck(claim: ClaimRequest): Promise<void> {
    const { store } = this.#context;
    if (!this.#abandoned.isStuck || !store.capabilities.remoteWait) return;
    const report = { ...claim, limit: 1, waitMs: 0, abandoned: this.#abandoned.count };
    await store.claim(report, { timeoutMs: CALL_TIMEOUT_MS }).catch(failedOutcome);
  }

  async #claimUntilStopped(): Promise<void> {
    const { env, namespace, holder, ready, store } = this.#context;
    const { signal } = this.#stopping;
    // A remote claim is not cut off: its answer may contain tasks to requeue.
    const cut = store.capabilities.remoteWait ? {} : { signal };
    let claimId = newLeaseId(env.random);
    const backoff = new Backoff(env.random, RETRY);
    const lookForLater = laterVersions(this.#context);
    let isFailing = false;
    // A task that starts before its limit is declared would not be held to it.
    if (this.#limits) await declareAll(this.#limits, this.#context, signal);
    while (!signal.aborted) {
      // Handlers need not wait for the reports of those before them.
      const limit = Math.min(
        this.#concurrency - this.#work.handling,
        2 * this.#concurrency - this.#work.running.length,
      );
      const request: ClaimRequest = {
        namespace,
        holder,
        claimId,
        limit,
        queues: this.#queues,
        ttlMs: this.#work.ttlMs,
        kinds: this.#work.kinds,
        ...this.#work.versions,
        ...this.#grace,
        waitMs: Math.min(LONGEST_WAIT_MS, Math.floor(this.#work.ttlMs / 4)),
      };
      if (limit === 0 || this.#abandoned.isStuck) {
        // The wait comes first: a slot that is freed before it begins would go unseen.
        await Promise.all([this.#whenSlotFreed(), this.#reportStuck(request)]);
        continue;
      }
      const sent = instant(env.clock);
      let from: TraceContext | undefined;
      const claim = () => {
        from = env.telemetry?.here();
        return ready.claim(request, { ...cut, timeoutMs: CALL_TIMEOUT_MS }).catch(failedOutcome);
      };
      const outcome = await (env.telemetry?.span("leasehold.task claim", {}, claim) ?? claim());
      if (outcome.status === "claimed") {
        claimId = newLeaseId(env.random);
        backoff.reset();
        if (isFailing) env.logger.info({}, "the store answers again");
        isFailing = false;
        this.#work.start(outcome, sent, from);
        if (outcome.tasks.length < limit) lookForLater(request);
        continue;
      }
      isFailing = true;
      env.logger.warn({ err: outcome.error }, "could not claim tasks");
      await sleep(env.clock, backoff.nextMs(), { signal }).catch(() => {});
    }
  }
}

function byKind(handlers: readonly TaskHandler[]): ReadonlyMap<string, TaskHandler> {
  const given: unknown = handlers;
  if (!Array.isArray(given) || handlers.length === 0) {
    throw new InvalidOptionError("handlers", "must be an array of at least one handler");
  }
  const map = new Map<string, TaskHandler>();
  for (const [index, handler] of handlers.entries()) {
    if (typeof handler?.run !== "function" || typeof handler.kind !== "string") {
      throw new InvalidOptionError(`handlers.${index}`, "must be made by defineTask(...).handle");
    }
    if (map.has(handler.kind)) {
      throw new InvalidOptionError(
        `handlers.${index}`,
        `is a second handler for the kind "${handler.kind}": a worker has one for each kind`,
      );
    }
    map.set(handler.kind, handler);
  }
  return map;
}
