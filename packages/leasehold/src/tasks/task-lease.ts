/** The lease on a task, which its handler sees and its worker ends. */
import {
  type GrantActions,
  HeldLease,
  type Instant,
  type KeepOptions,
  type RenewalScheduler,
} from "../core/index.js";
import type { Env, LeaseId } from "../env/index.js";
import type { ClaimedTask } from "./port.js";

/** What the leases of one worker have in common. */
interface Common {
  readonly env: Env;
  readonly holder: string;
  readonly keep: KeepOptions;
  readonly scheduler: RenewalScheduler;
}

/**
 * Only the worker ends it, after the handler. If the handler ended it, the store would requeue the task at once, and the
 * task would run again and again without a pause: what the handler returned or threw would never be reported.
 */
export class TaskLease extends HeldLease {
  #hasEnded = false;

  /** @param sent when the claim was sent */
  constructor(
    { env, holder, keep, scheduler }: Common,
    { id, leaseId, token, remainingMs }: ClaimedTask,
    sent: Instant,
    actions: GrantActions<HeldLease>,
  ) {
    const resource = `task:${id}`;
    const granted = { resource, holder, sent, leaseId: leaseId as LeaseId, token, remainingMs };
    super(granted, keep, actions, scheduler, env);
  }

  /**
   * While the handler runs, this does nothing. A rejection would hide what the handler throws, and would end the process
   * if the handler does not await it. The disposal calls this too.
   */
  override release(): Promise<void> {
    return this.#hasEnded ? super.release() : Promise.resolve();
  }

  /** Releases it; never rejects. */
  end(): Promise<void> {
    this.#hasEnded = true;
    return this[Symbol.asyncDispose]();
  }
}
