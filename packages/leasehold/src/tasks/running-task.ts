/**
 * The tasks that a worker works on: each from its claim until its report is acknowledged.
 *
 * At thousands of tasks per second, collecting garbage costs more than all other work here, and what outlives a
 * collection costs most. So a task is one object, which the completer calls when its completion is acknowledged. Most
 * tasks end before their first renewal is due, and their handlers do not ask for the lease. Until then the tasks of a
 * claim share their trust and one entry of the scheduler; it makes a lease for each that still runs:
 *
 *   claim ──▶ ClaimTrust ──▶ handler asks for the lease or signal, or a renewal is due ──▶ HeldLease
 *                   └──▶ completed, while trust lasts
 */
import {
  type GrantActions,
  type HeldLease,
  type Instant,
  isRefusedRequest,
  type KeepOptions,
  logThrownLate,
  RENEW_JITTER_RATIO,
  type ReleaseOutcome,
  RenewalScheduler,
  type RenewOutcome,
  type Scheduled,
  type ScheduledLease,
  type Submission,
  type Trust,
  trustFrom,
  trustLeftMs,
} from "../core/index.js";
import { describe, type Env, type Logger, type OpenSpan, type TraceContext } from "../env/index.js";
import { Completer, reportTimeoutMs } from "./completer.js";
import { type HandlerContext, isFinal, type TaskHandler } from "./define.js";
import { handlerContext } from "./handler-context.js";
import { CHECKPOINT_BYTES, toJson } from "./json.js";
import type {
  ClaimedTask,
  ClaimRequest,
  CompleteOutcome,
  CompleteRequest,
  FailRequest,
  Json,
  TaskGrant,
  TaskStore,
} from "./port.js";
import { TaskLease } from "./task-lease.js";
import { FIRST_VERSION } from "./values.js";

/** See AcquireOptions: the same numbers for the same reasons. */
const KEEP = {
  autoRenew: true,
  marginMs: 10,
  driftRatio: 0.01,
  stopOnRenewError: false,
} as const;
/** Whose tasks they are, and where they come from. */
interface Origin {
  readonly store: TaskStore;
  readonly env: Env;
  readonly namespace: string;
  readonly holder: string;
}

type Failure = Pick<FailRequest, "error" | "retryInMs" | "final">;

/** What the tasks of one worker have in common. */
export class TasksAtWork {
  readonly env: Env;
  readonly namespace: string;
  readonly holder: string;
  readonly kinds: readonly string[];
  /** Absent if all are the first. */
  readonly versions: Pick<ClaimRequest, "versions">;
  readonly keep: KeepOptions;
  readonly completer: Completer;
  readonly scheduler: RenewalScheduler;
  /** In no order: the last one takes the place of one that ends, which costs less than a set or a map. */
  readonly running: RunningTask[] = [];
  /** How many handlers run now. */
  handling = 0;

  /**
   * @param stopping aborts when no handler may begin any more
   * @param slotFreed called when a handler ends, and when its report is acknowledged
   */
  constructor(
    { store, env, namespace, holder }: Origin,
    readonly handlers: ReadonlyMap<string, TaskHandler>,
    readonly ttlMs: number,
    readonly stopping: AbortSignal,
    readonly slotFreed: () => void,
  ) {
    this.env = env;
    this.namespace = namespace;
    this.holder = holder;
    this.kinds = [...handlers.keys()];
    const later = [...handlers].flatMap(([kind, { contract }]) =>
      contract && contract.version > FIRST_VERSION ? [[kind, contract.version] as const] : [],
    );
    this.versions = later.length > 0 ? { versions: Object.fromEntries(later) } : {};
    this.keep = { ...KEEP, ttlMs, renewIntervalMs: Math.floor(ttlMs / 3) };
    this.completer = new Completer(store, env);
    this.scheduler = new RenewalScheduler(env.clock);
  }

  /**
   * @param sent when the claim was sent
   * @param parent of their spans, where that is traced
   */
  start(tasks: readonly ClaimedTask[], sent: Instant, parent: TraceContext | undefined): void {
    let shared: ClaimTrust | undefined;
    for (const claimed of tasks) {
      // A repeated claim may have less left of some of its grants.
      if (shared?.remainingMs !== claimed.remainingMs) {
        shared = new ClaimTrust(this, sent, claimed.remainingMs);
      }
      shared.count += 1;
      const task = new RunningTask(this, claimed, shared, this.running.length);
      this.running.push(task);
      task.start(parent);
    }
  }

  remove({ place, claim }: RunningTask): void {
    claim.count -= 1;
    if (claim.count === 0) this.scheduler.remove(claim);
    const last = this.running.pop() as RunningTask;
    if (last.place === place) return;
    this.running[place] = last;
    last.place = place;
  }
}

/** The trust in the grants of one claim, until each has a lease of its own. */
class ClaimTrust implements ScheduledLease {
  readonly trust: Trust;
  /** How many of its tasks run. */
  count = 0;
  scheduled: Scheduled | undefined = undefined;

  constructor(
    readonly work: TasksAtWork,
    readonly sent: Instant,
    readonly remainingMs: number,
  ) {
    this.trust = trustFrom(sent, remainingMs, work.keep);
    const renewMs = work.keep.renewIntervalMs * (1 - RENEW_JITTER_RATIO);
    const renewAtMs = Math.min(sent.monotonicMs + renewMs, this.trust.untilMonotonicMs);
    work.scheduler.schedule(this, renewAtMs);
  }

  /** The first renewal is due soon, or the machine was suspended. */
  wake(): void {
    for (const task of Array.from(this.work.running)) if (task.claim === this) task.lease.wake();
  }
}

class RunningTask
  implements HandlerContext, GrantActions<HeldLease>, Submission<CompleteRequest, CompleteOutcome>
{
  #lease: TaskLease | undefined;
  readonly #work: TasksAtWork;
  readonly #task: ClaimedTask;
  /** Among those that run. */
  place: number;
  /** Goes with each heartbeat; undefined: none yet. */
  #progress: Json | undefined;
  /** Goes with each heartbeat until one is confirmed. */
  #checkpoint: { readonly value: Json } | undefined;
  #report: "none" | "sent" | "accepted" = "none";
  #hasEnded = false;
  #ended: Promise<void> | undefined;
  #end: (() => void) | undefined;
  /** The completion, once the handler has ended. */
  declare request: CompleteRequest;
  timeoutMs = 0;
  deadlineMs = 0;
  from: TraceContext | undefined = undefined;

  constructor(
    work: TasksAtWork,
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

  #begin(span: OpenSpan | undefined): void {
    const work = this.#work;
    work.handling += 1;
    const handler = work.handlers.get(this.#task.kind);
    // Trust may be over before the answer was read; and after close() nothing new begins.
    if (handler && this.#checkAlive() && !work.stopping.aborted) {
      void this.#handle(handler, span);
    } else {
      this.#handled(undefined, undefined, span);
    }
  }

  /** Short, because all that an asynchronous function may need outlives its wait. */
  async #handle(handler: TaskHandler, span: OpenSpan | undefined): Promise<void> {
    let output: Json | undefined;
    let failure: Failure | undefined;
    try {
      output = await handler.run(this.#task.data, handlerContext(this));
    } catch (error) {
      failure = this.#failure(error);
    }
    this.#handled(output, failure, span);
  }

  /** Reports how the handler ended; without a report, the task goes back to the queue. */
  #handled(
    output: Json | undefined,
    failure: Failure | undefined,
    span: OpenSpan | undefined,
  ): void {
    const work = this.#work;
    work.handling -= 1;
    work.slotFreed();
    if (output === undefined) span?.fail();
    if (output !== undefined) return this.#complete(output);
    if (!failure) return this.#reported(false);
    this.#report = "sent";
    const request = { ...this.#grant(), ...failure };
    void work.completer.fail(this.lease, request).then((accepted) => this.#reported(accepted));
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
    this.#work.remove(this);
    this.#end?.();
    this.#work.slotFreed();
  }

  /** Undefined if the handler stopped because its signal aborted: it has not failed. */
  #failure(error: unknown): Failure | undefined {
    const { id, kind } = this.#task;
    if (!this.#checkAlive() || this.#lease?.signal.aborted) {
      logThrownLate(this.log, this.lease, error, { id, kind });
      return undefined;
    }
    this.log.warn({ err: error, id, kind }, "task failed");
    return { error: describe(error), retryInMs: null, final: isFinal(error) };
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
