/**
 * One task that a worker works on, from its claim until its report is acknowledged.
 *
 *   handler runs ──┬── returns ──────────────────▶ complete ─┐
 *                  ├── throws ───────────────────▶ fail      ├─▶ acknowledged, or the lease is lost
 *                  ├── throws RetryLater ────────▶ postpone  │
 *                  └── maxRunMs ─▶ signal aborts ─▶ fail ────┘  when it ends, or after the grace
 *
 * Failure cases. *The lease is lost, or the task cancelled*: nothing is reported, and the slot is free when the handler ends,
 * or after the grace (abandoned.ts). *The store does not answer until the end of the grace*: the lease expires, which counts
 * as a crash.
 */
import {
  describe,
  type Logger,
  type OpenSpan,
  type Timer,
  type TraceContext,
} from "../env/index.js";
import {
  type GrantActions,
  type HeldLease,
  isRefusedRequest,
  logThrownLate,
  type ReleaseOutcome,
  type RenewOutcome,
  ranTooLong,
  type Submission,
  TaskTimeoutError,
  trustLeftMs,
} from "../lease/index.js";
import type { Abandonable, AbandonedHandlers } from "./abandoned.js";
import { type Completer, reportTimeoutMs, type Trusted } from "./completer.js";
import { type HandlerContext, isFinal, type TaskHandler } from "./define.js";
import { handlerContext } from "./handler-context.js";
import { CHECKPOINT_BYTES, toJson } from "./json.js";
import type { ClaimedTask, CompleteOutcome, CompleteRequest, Json, TaskGrant } from "./port.js";
import { isRetryLater, type RetryLater, retryInMs } from "./retry-later.js";
import { type ClaimTrust, type Common, TaskLease } from "./task-lease.js";

/** What the tasks of one worker have in common. */
export interface Work extends Common {
  readonly namespace: string;
  readonly ttlMs: number;
  readonly handlers: ReadonlyMap<string, TaskHandler>;
  /** Aborts when no handler may begin any more. */
  readonly stopping: AbortSignal;
  readonly completer: Completer;
  readonly abandoned: AbandonedHandlers;
  /** How many handlers run now. */
  handling: number;
  /** A handler has ended, or its report is acknowledged. */
  readonly slotFreed: () => void;
  remove(task: RunningTask): void;
}

/** A handler that has run for this long is named in a warning, once. */
const LONG_RUN_MS = 3_600_000;

/** Sends why an attempt has no output: false when the task is no longer ours. */
type Report = () => Promise<boolean>;

export class RunningTask
  implements
    Abandonable,
    HandlerContext,
    GrantActions<HeldLease>,
    Submission<CompleteRequest, CompleteOutcome>
{
  #lease: TaskLease | undefined;
  readonly #work: Work;
  readonly #task: ClaimedTask;
  /** Among those that run. */
  place: number;
  /** Goes with each heartbeat; undefined: none yet. */
  #progress: Json | undefined;
  /** Goes with each heartbeat until one is confirmed. */
  #checkpoint: { readonly value: Json } | undefined;
  #report: "none" | "sent" | "accepted" = "none";
  #isHandling = false;
  #isLong = false;
  /** Until the attempt has run for as long as it may. */
  #limit: Timer | undefined;
  #isOutOfTime = false;
  #hasEnded = false;
  #ended: Promise<void> | undefined;
  #end: (() => void) | undefined;
  /** The completion, once the handler has ended. */
  declare request: CompleteRequest;
  timeoutMs = 0;
  deadlineMs = 0;
  from: TraceContext | undefined = undefined;

  constructor(
    work: Work,
    task: ClaimedTask,
    readonly claim: ClaimTrust,
    place: number,
  ) {
    this.#work = work;
    this.#task = task;
    this.place = place;
  }

  get lease(): TaskLease {
    if (this.#lease) return this.#lease;
    this.#lease = new TaskLease(this.#work, this.#task, this.claim.sent, this);
    if (this.#report === "accepted") this.#lease.finish();
    return this.#lease;
  }

  /** Without data, checkpoint and lease id. */
  get task(): HandlerContext["task"] {
    const { data: _data, checkpoint: _checkpoint, leaseId: _leaseId, ...shown } = this.#task;
    return shown;
  }

  get id(): string {
    return this.#task.id;
  }

  get kind(): string {
    return this.#task.kind;
  }

  get log(): Logger {
    return this.#work.env.logger;
  }

  get signal(): AbortSignal {
    return this.lease.signal;
  }

  get progress(): HandlerContext["progress"] {
    return (value) => {
      this.#progress = toJson("progress", value, CHECKPOINT_BYTES);
    };
  }

  get lastCheckpoint(): Json {
    return this.#task.checkpoint;
  }

  get checkpoint(): HandlerContext["checkpoint"] {
    return async (value) => {
      this.#checkpoint = { value: toJson("checkpoint", value, CHECKPOINT_BYTES) };
      // With a TTL it follows a renewal in flight, which may have been sent without the checkpoint.
      await this.lease.renew({ ttlMs: this.#work.ttlMs });
    };
  }

  start(parent: TraceContext | undefined): void {
    const { telemetry } = this.#work.env;
    if (!telemetry) return this.#begin(undefined);
    const { id, kind } = this.#task;
    const attributes = { "leasehold.task.id": id, "leasehold.task.kind": kind };
    const about = { kind: "consumer", attributes, ...(parent && { parent }) } as const;
    void telemetry.span("leasehold.task run", about, (span) => {
      this.#begin(span);
      return this.whenEnded();
    });
  }

  /** Resolves when its report is acknowledged, or it has gone back to the queue. */
  whenEnded(): Promise<void> {
    this.#ended ??= this.#hasEnded
      ? Promise.resolve()
      : new Promise((resolve) => {
          this.#end = resolve;
        });
    return this.#ended;
  }

  /** For the lease. */
  async renew(timeoutMs: number): Promise<RenewOutcome> {
    this.#warnOfLongRun();
    const [progress, checkpoint] = [this.#progress, this.#checkpoint];
    const drop = (what: string, err: unknown) =>
      this.log.warn({ err, id: this.#task.id, what }, "the store refuses what a handler reports");
    let outcome = await this.#heartbeat(timeoutMs, checkpoint, progress);
    // Sent again, what the store refuses would be refused until the lease has expired.
    if (progress !== undefined && isRefusedRequest(outcome)) {
      const { error } = outcome;
      outcome = await this.#heartbeat(timeoutMs / 2, checkpoint);
      if (outcome.status === "renewed") drop("progress", error);
      if (outcome.status === "renewed" && this.#progress === progress) this.#progress = undefined;
    }
    if (checkpoint && isRefusedRequest(outcome)) drop("checkpoint", outcome.error);
    const isSettled = outcome.status === "renewed" || isRefusedRequest(outcome);
    if (isSettled && this.#checkpoint === checkpoint) this.#checkpoint = undefined;
    // Our own report, whose answer is still to come, may be what has ended the grant: what
    // became of it is for the report to find out. Until then this renewal stays open.
    if (outcome.status === "lost" && this.#report !== "none") await this.whenEnded();
    return outcome;
  }

  #warnOfLongRun(): void {
    const ranMs = this.#work.env.clock.monotonic() - this.claim.sent.monotonicMs;
    if (this.#isLong || ranMs < LONG_RUN_MS) return;
    this.#isLong = true;
    const { id, kind } = this.#task;
    this.log.warn(
      { event: "handler_runs_long", id, kind, ranMs: Math.round(ranMs) },
      "a handler has run for an hour: if it hangs, cancel its task, and give its kind a maxRunMs",
    );
  }

  #heartbeat(timeoutMs: number, checkpoint?: { value: Json }, progress?: Json) {
    const request = {
      ...this.#grant(),
      ttlMs: this.#work.ttlMs,
      ...(progress !== undefined && { progress }),
      ...(checkpoint && { checkpoint: checkpoint.value }),
    };
    return this.#work.completer.heartbeat(request, timeoutMs);
  }

  /** For the lease. A reported task has ended with its report; any other goes back to the queue. */
  async release(timeoutMs: number): Promise<ReleaseOutcome> {
    if (this.#report === "accepted") return { status: "released" };
    return this.#work.completer.requeue(this.#grant(), timeoutMs);
  }

  /** For the lease: it was lost, or released. */
  ended(lease: HeldLease): void {
    if (lease.lostError && this.#isHandling) this.#work.abandoned.lost(this);
  }

  abandon(): void {
    const work = this.#work;
    work.handling -= 1;
    if (!this.#isOutOfTime || !this.lease.checkAlive()) return this.#leave();
    work.slotFreed();
    // Its handler still runs. It must not trust the lease any longer: once the failure is recorded, the task may run elsewhere.
    const { clock } = work.env;
    const untilMs = clock.monotonic() + this.lease.remainingMs();
    this.lease.isToExpire = true;
    this.lease.lose("expired");
    const remainingMs = () => Math.max(0, untilMs - clock.monotonic());
    const rest = { remainingMs, checkAlive: () => remainingMs() > 0, lose() {} };
    this.#send(() => this.#failOfTime(rest));
  }

  /**
   * Asks the handler to end. The store lets no renewal go beyond the grace; this one makes sure that the lease is trusted until
   * then.
   */
  #timeOut(maxRunMs: number): void {
    if (!this.#checkAlive()) return;
    this.#isOutOfTime = true;
    const { id, kind } = this.#task;
    this.log.warn({ event: "task_timeout", id, kind, maxRunMs }, "a handler runs too long");
    this.lease.interrupt(new TaskTimeoutError(id, maxRunMs));
    this.#work.abandoned.lost(this);
    // A loss is noticed by itself.
    void this.lease.renew().catch(() => {});
  }

  #failOfTime(trusted: Trusted = this.lease): Promise<boolean> {
    return this.#fail(`it ${ranTooLong(this.#task.maxRunMs ?? 0)} (maxRunMs)`, false, trusted);
  }

  #begin(span: OpenSpan | undefined): void {
    const work = this.#work;
    work.handling += 1;
    const { kind, maxRunMs } = this.#task;
    const handler = work.handlers.get(kind);
    // Trust may be over before the answer was read; and after close() nothing new begins.
    if (handler && this.#checkAlive() && !work.stopping.aborted) {
      if (maxRunMs !== null) {
        this.#limit = work.env.clock.timer(maxRunMs, () => this.#timeOut(maxRunMs));
      }
      void this.#handle(handler, span);
    } else {
      this.#handled(undefined, undefined, span);
    }
  }

  /** Short, because all that an asynchronous function may need outlives its wait. */
  async #handle(handler: TaskHandler, span: OpenSpan | undefined): Promise<void> {
    let output: Json | undefined;
    let report: Report | undefined;
    this.#isHandling = true;
    try {
      output = await handler.run(this.#task.data, handlerContext(this));
    } catch (error) {
      report = this.#reportOf(error);
    }
    this.#isHandling = false;
    this.#limit?.cancel();
    // An abandoned handler has ended: its task is over since long.
    if (this.#lease && this.#work.abandoned.ended(this)) {
      span?.fail();
      return this.#work.slotFreed();
    }
    if (!this.#isOutOfTime) return this.#handled(output, report, span);
    this.#handled(undefined, () => this.#failOfTime(), span);
  }

  /** Reports how the handler ended; without a report, the task goes back to the queue. */
  #handled(output: Json | undefined, report: Report | undefined, span: OpenSpan | undefined): void {
    const work = this.#work;
    work.handling -= 1;
    work.slotFreed();
    if (output === undefined) span?.fail();
    if (output !== undefined) return this.#complete(output);
    if (!report) return this.#reported(false);
    this.#send(report);
  }

  #send(report: Report): void {
    this.#report = "sent";
    void report().then((accepted) => this.#reported(accepted));
  }

  #fail(error: string, final: boolean, trusted: Trusted = this.lease): Promise<boolean> {
    const request = { ...this.#grant(), error, retryInMs: null, final };
    return this.#work.completer.fail(trusted, request);
  }

  #postpone(error: RetryLater): Promise<boolean> {
    const { reason } = error;
    const delayMs = retryInMs(error, this.#work.env.clock.wall());
    const request = { ...this.#grant(), retryInMs: delayMs, reason };
    return this.#work.completer.postpone(this.lease, request);
  }

  #complete(output: Json): void {
    const { completer, env, namespace } = this.#work;
    const { id, leaseId, token } = this.#task;
    if (!this.#checkAlive()) return this.#reported(false);
    this.#report = "sent";
    this.request = { namespace, id, leaseId, token, output };
    this.timeoutMs = reportTimeoutMs(this.#trustedMs());
    this.deadlineMs = env.clock.monotonic() + this.timeoutMs;
    this.from = env.telemetry?.here();
    completer.add(this);
  }

  /** The first outcome of the completion. */
  settle(outcome: CompleteOutcome): void {
    if (outcome.status === "completed") return this.#reported(true);
    const report = this.#work.completer.complete(this.lease, this.request, outcome);
    void report.then((accepted) => this.#reported(accepted));
  }

  #reported(accepted: boolean): void {
    if (!accepted) {
      // The store takes no report: requeued, the task would run again at once, and no count would grow. So it expires.
      if (this.#report === "sent") this.lease.finish();
      return void this.lease.end().then(() => this.#leave());
    }
    this.#report = "accepted";
    this.#lease?.finish();
    this.#leave();
  }

  #leave(): void {
    this.#hasEnded = true;
    this.#lease?.leave();
    this.#work.remove(this);
    this.#end?.();
    this.#work.slotFreed();
  }

  /** Undefined if the handler stopped because its signal aborted: it has not failed. */
  #reportOf(error: unknown): Report | undefined {
    const { id, kind, postponed } = this.#task;
    if (!this.#checkAlive() || this.#lease?.signal.aborted) {
      logThrownLate(this.log, this.lease, error, { id, kind });
      return undefined;
    }
    if (isRetryLater(error)) {
      const { mostTimes, reason } = error;
      if (mostTimes === null || postponed < mostTimes) return () => this.#postpone(error);
      const times = `put off ${postponed} times, its mostTimes`;
      return () => this.#fail(reason === null ? times : `${times}: ${reason}`, true);
    }
    this.log.warn({ err: error, id, kind }, "task failed");
    return () => this.#fail(describe(error), isFinal(error));
  }

  /** As `lease.remainingMs()`. */
  #trustedMs(): number {
    if (this.#lease) return this.#lease.remainingMs();
    return trustLeftMs(this.claim.trust, this.#work.env.clock);
  }

  /** As `lease.checkAlive()`, which reports a loss. */
  #checkAlive(): boolean {
    return (!this.#lease && this.#trustedMs() > 0) || this.lease.checkAlive();
  }

  #grant(): TaskGrant {
    const { id, leaseId, token } = this.#task;
    return { namespace: this.#work.namespace, id, leaseId, token };
  }
}
