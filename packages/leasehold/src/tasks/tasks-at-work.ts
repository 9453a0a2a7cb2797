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
import type { Env, TraceContext } from "../env/index.js";
import { type Instant, type KeepOptions, later, RenewalScheduler } from "../lease/index.js";
import type { AbandonedHandlers } from "./abandoned.js";
import { Completer } from "./completer.js";
import type { TaskHandler } from "./define.js";
import type { ClaimOutcome, ClaimRequest, TaskStore } from "./port.js";
import { RunningTask, type Work } from "./running-task.js";
import { ClaimTrust } from "./task-lease.js";
import { FIRST_VERSION } from "./values.js";

/** See AcquireOptions: the same numbers for the same reasons. */
const KEEP = {
  autoRenew: true,
  marginMs: 10,
  driftRatio: 0.01,
  stopOnRenewError: false,
} as const;
type Claimed = Extract<ClaimOutcome, { status: "claimed" }>;

/** Whose tasks they are, and where they come from. */
interface Origin {
  readonly store: TaskStore;
  readonly env: Env;
  readonly namespace: string;
  readonly holder: string;
}

/** What the tasks of one worker have in common. */
export class TasksAtWork implements Work {
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
   * @param abandoned those whose slots were taken from them
   * @param slotFreed called when a handler ends, and when its report is acknowledged
   */
  constructor(
    { store, env, namespace, holder }: Origin,
    readonly handlers: ReadonlyMap<string, TaskHandler>,
    readonly ttlMs: number,
    readonly stopping: AbortSignal,
    readonly abandoned: AbandonedHandlers,
    readonly slotFreed: () => void,
  ) {
    this.env = env;
    this.namespace = namespace;
    this.holder = holder;
    this.kinds = [...handlers.keys()];
    const later = [...handlers].flatMap(([kind, { version = FIRST_VERSION }]) =>
      version > FIRST_VERSION ? [[kind, version] as const] : [],
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
  start({ tasks, waitedMs = 0 }: Claimed, sent: Instant, parent: TraceContext | undefined): void {
    let shared: ClaimTrust | undefined;
    // A lease that `maxRunMs` keeps short may be over by the end of a wait that is counted in.
    const asked = later(sent, waitedMs, KEEP.driftRatio);
    for (const claimed of tasks) {
      // A repeated claim may have less left of some of its grants.
      if (shared?.remainingMs !== claimed.remainingMs) {
        const { remainingMs } = claimed;
        shared = new ClaimTrust(this.scheduler, this.keep, asked, remainingMs, this.#wakeAll);
      }
      shared.count += 1;
      const task = new RunningTask(this, claimed, shared, this.running.length);
      this.running.push(task);
      task.start(parent);
    }
  }

  /** The first renewal of the tasks of a claim is due soon, or the machine was suspended. */
  readonly #wakeAll = (claim: ClaimTrust): void => {
    for (const task of Array.from(this.running)) if (task.claim === claim) task.lease.wake();
  };

  remove({ place, claim }: RunningTask): void {
    claim.count -= 1;
    if (claim.count === 0) this.scheduler.remove(claim);
    const last = this.running.pop() as RunningTask;
    if (last.place === place) return;
    this.running[place] = last;
    last.place = place;
  }
}
