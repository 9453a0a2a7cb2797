/**
 * The tasks that a worker works on: each from its claim until its report is acknowledged.
 *
 * At thousands of tasks per second, collecting garbage costs more than all other work here, and what outlives a
 * collection costs most. So a task is one object beside its lease: the lease calls it to renew, and the completer calls
 * it when its completion is acknowledged. What few handlers use is made when they ask for it.
 */
import {
  type GrantActions,
  HeldLease,
  type Instant,
  type KeepOptions,
  type Lease,
  type ReleaseOutcome,
  RenewalScheduler,
  type RenewOutcome,
  type Submission,
} from "../core/index.js";
import type { Env, LeaseId, Logger, OpenSpan, TraceContext } from "../env/index.js";
import { Completer, reportTimeoutMs } from "./completer.js";
import { FinalTaskError, type HandlerContext, type TaskHandler } from "./define.js";
import { describe } from "./describe.js";
import { toJson } from "./json.js";
import type {
  ClaimedTask,
  CompleteOutcome,
  CompleteRequest,
  FailRequest,
  Json,
  TaskGrant,
  TaskStore,
} from "./port.js";

/** See AcquireOptions: the same numbers for the same reasons. */
const KEEP = {
  autoRenew: true,
  marginMs: 10,
  driftRatio: 0.01,
  stopOnRenewError: false,
} as const;
/** It travels with every heartbeat, in one request with those of the other tasks. */
const LONGEST_PROGRESS_BYTES = 64 * 1024;

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
    this.keep = { ...KEEP, ttlMs, renewIntervalMs: Math.floor(ttlMs / 3) };
    this.completer = new Completer(store, env);
    this.scheduler = new RenewalScheduler(env.clock);
  }

  /** @param parent of its span, where that is traced */
  start(claimed: ClaimedTask, sent: Instant, parent: TraceContext | undefined): void {
    const task = new RunningTask(this, claimed, sent, this.running.length);
    this.running.push(task);
    task.start(parent);
  }

  remove({ place }: RunningTask): void {
    const last = this.running.pop() as RunningTask;
    if (last.place === place) return;
    this.running[place] = last;
    last.place = place;
  }
}

class RunningTask implements GrantActions<HeldLease>, Submission<CompleteRequest, CompleteOutcome> {
  readonly lease: HeldLease;
  readonly #work: TasksAtWork;
  readonly #task: ClaimedTask;
  /** Among those that run. */
  place: number;
  /** Goes with each heartbeat; undefined: none yet. */
  #progress: Json | undefined;
  #report: "none" | "sent" | "accepted" = "none";
  #hasEnded = false;
  #ended: Promise<void> | undefined;
  #end: (() => void) | undefined;
  /** The completion, once the handler has ended. */
  declare request: CompleteRequest;
  timeoutMs = 0;
  deadlineMs = 0;
  from: TraceContext | undefined = undefined;

  constructor(work: TasksAtWork, task: ClaimedTask, sent: Instant, place: number) {
    this.#work = work;
    this.#task = task;
    this.place = place;
    this.lease = new HeldLease(
      {
        resource: `task:${task.id}`,
        holder: work.holder,
        sent,
        leaseId: task.leaseId as LeaseId,
        token: task.token,
        remainingMs: task.remainingMs,
      },
      work.keep,
      this,
      work.scheduler,
      work.env,
    );
  }

  /** Without data and lease id. */
  get shown(): HandlerContext["task"] {
    const { data: _data, leaseId: _leaseId, ...shown } = this.#task;
    return shown;
  }

  get log(): Logger {
    return this.#work.env.logger;
  }

  progress(value: Json): void {
    this.#progress = toJson("progress", value, LONGEST_PROGRESS_BYTES);
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
    const { completer, ttlMs } = this.#work;
    const progress = this.#progress;
    const news = progress === undefined ? {} : { progress };
    const outcome = await completer.heartbeat({ ...this.#grant(), ttlMs, ...news }, timeoutMs);
    // Our own report, whose answer is still to come, may be what has ended the grant: what
    // became of it is for the report to find out. Until then this renewal stays open.
    if (outcome.status === "lost" && this.#report !== "none") await this.whenEnded();
    return outcome;
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
    if (handler && this.lease.checkAlive() && !work.stopping.aborted) {
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
      output = await handler.run(this.#task.data, contextOf(this));
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
    if (!this.lease.checkAlive()) return this.#reported(false);
    this.#report = "sent";
    this.request = { namespace, id, leaseId, token, output };
    this.timeoutMs = reportTimeoutMs(this.lease);
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
    if (!accepted) return void this.lease[Symbol.asyncDispose]().then(() => this.#leave());
    this.#report = "accepted";
    this.lease.finish();
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
    if (!this.lease.checkAlive() || this.lease.signal.aborted) return undefined;
    const { id, kind } = this.#task;
    this.log.warn({ err: error, id, kind }, "task failed");
    const final = error instanceof FinalTaskError;
    return { error: describe(error), retryInMs: null, final };
  }

  #grant(): TaskGrant {
    const { id, leaseId, token } = this.#task;
    return { namespace: this.#work.namespace, id, leaseId, token };
  }
}

/**
 * What a handler sees of its task. Its properties are made when they are read. They are its own, so that a handler may
 * take some and pass on the rest: `({ lease, ...rest }) => work(rest)`.
 */
function contextOf(running: RunningTask): HandlerContext {
  return {
    get task() {
      return running.shown;
    },
    get lease(): Lease {
      return running.lease;
    },
    get signal() {
      return running.lease.signal;
    },
    get progress(): HandlerContext["progress"] {
      return (value) => running.progress(value);
    },
    get log() {
      return running.log;
    },
  };
}
