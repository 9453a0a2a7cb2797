/** The lease on a task, which its handler sees and its worker ends. */
import type { Env, LeaseId } from "../env/index.js";
import {
  forgetTaskToken,
  type GrantActions,
  HeldLease,
  type Instant,
  type KeepOptions,
  noteTaskToken,
  RENEW_JITTER_RATIO,
  type RenewalScheduler,
  type Scheduled,
  type ScheduledLease,
  type Trust,
  trustFrom,
} from "../lease/index.js";
import type { ClaimedTask } from "./port.js";

/** What the leases of one worker have in common. */
export interface Common {
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
    noteTaskToken(resource, token);
  }

  /** Its task is at work no more. */
  leave(): void {
    forgetTaskToken(this.resource, this.token);
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

/** The trust in the grants of one claim, until each has a lease of its own. */
export class ClaimTrust implements ScheduledLease {
  readonly trust: Trust;
  /** How many of its tasks run. */
  count = 0;
  scheduled: Scheduled | undefined = undefined;

  /** @param wakeAll asks each of its tasks to renew its lease */
  constructor(
    scheduler: RenewalScheduler,
    keep: KeepOptions,
    readonly sent: Instant,
    readonly remainingMs: number,
    readonly wakeAll: (claim: ClaimTrust) => void,
  ) {
    this.trust = trustFrom(sent, remainingMs, keep);
    const renewMs = keep.renewIntervalMs * (1 - RENEW_JITTER_RATIO);
    scheduler.schedule(this, Math.min(sent.monotonicMs + renewMs, this.trust.untilMonotonicMs));
  }

  /** The first renewal is due soon, or the machine was suspended. */
  wake(): void {
    this.wakeAll(this);
  }
}
