/** The state that the leases of one client share, and the operations on their grants. */
import type { Env } from "../env/index.js";
import type { Aborting, Calls } from "./aborting.js";
import type { BatchedStore } from "./batching.js";
import type { GrantActions } from "./grant-actions.js";
import { HeldLease } from "./held-lease.js";
import type { HeldLeases } from "./held-leases.js";
import { measureEnded, measureHeld } from "./measure.js";
import { checkTtl, type ResolvedOptions } from "./options.js";
import type { Capabilities, Grant, ReleaseOutcome, RenewOutcome } from "./port.js";
import type { RenewalScheduler } from "./renewal-scheduler.js";
import type { RenewalThread, ThreadRenewals } from "./thread.js";
import type { LocalQueue, Notifications } from "./waiter.js";

export interface LeaseContext {
  readonly capabilities: Capabilities;
  readonly batched: BatchedStore;
  readonly env: Env;
  readonly scheduler: RenewalScheduler;
  readonly thread: RenewalThread | undefined;
  readonly notifications: Notifications;
  readonly localQueue: LocalQueue;
  readonly namespace: string;
  readonly holder: string;
  /** Every lease of the client that has not ended. */
  readonly held: HeldLeases;
  readonly aborting: Aborting;
  /** Its acquires in flight. */
  readonly calls: Calls;
  /** Aborts when the client closes. */
  readonly closing: AbortSignal;
  /** Releases in flight that no caller waits for: the store stays open for them. */
  readonly releasing: Set<Promise<unknown>>;
}

/** The release of a grant that no caller uses may take this long. */
const RELEASE_BUDGET_MS = 5_000;

/** Turns a grant into a lease, which is renewed from now on. */
export function hold(
  context: LeaseContext,
  options: ResolvedOptions,
  granted: ConstructorParameters<typeof HeldLease>[0],
): HeldLease {
  const { resource, leaseId } = granted;
  const { namespace, thread } = context;
  const renewals = options.autoRenew
    ? thread?.start(namespace, granted, options, () => lease.wake())
    : undefined;
  const actions = new ActionsOnGrant(context, resource, leaseId, options.ttlMs, renewals);
  const lease: HeldLease = new HeldLease(granted, options, actions, context.scheduler, context.env);
  context.held.add(lease);
  measureHeld(context.env, lease);
  return lease;
}

/** No closures: a process may hold a hundred thousand. */
class ActionsOnGrant implements GrantActions<HeldLease> {
  constructor(
    readonly context: LeaseContext,
    readonly resource: string,
    readonly leaseId: string,
    readonly ttlMs: number,
    readonly thread: ThreadRenewals | undefined,
  ) {}

  checkTtl(ttlMs: number): void {
    checkTtl(ttlMs, this.context.capabilities.ttl);
  }

  renew(timeoutMs: number, ttlMs = this.ttlMs): Promise<RenewOutcome> {
    const { resource, leaseId } = this;
    const { namespace, batched } = this.context;
    return batched.renew({ namespace, resource, leaseId, ttlMs }, timeoutMs);
  }

  release(timeoutMs: number): Promise<ReleaseOutcome> {
    const { resource, leaseId } = this;
    const { namespace, batched } = this.context;
    return batched.release({ namespace, resource, leaseId }, timeoutMs);
  }

  keepOpenFor(call: Promise<unknown>): void {
    void tracked(this.context.releasing, call);
  }

  ended(lease: HeldLease): void {
    const { held, notifications } = this.context;
    this.thread?.stop();
    held.delete(lease);
    notifications.changed(lease.resource);
    measureEnded(this.context.env, lease);
  }
}

/**
 * Releases a grant, or a queue position, that no caller will use.
 * @param after the call in flight that may have made it
 */
export function giveUp(
  context: LeaseContext,
  grant: Grant,
  after: Promise<unknown> = Promise.resolve(),
): void {
  const released = after
    .then(() => context.batched.release(grant, RELEASE_BUDGET_MS))
    .then((outcome) => {
      if (outcome.status !== "failed") return;
      const { resource } = grant;
      context.env.logger.warn({ err: outcome.error, resource }, "gave up; not confirmed");
    });
  void tracked(context.releasing, released);
}

/** Keeps the promise in the set until it settles. */
export function tracked<T>(set: Set<Promise<unknown>>, promise: Promise<T>): Promise<T> {
  set.add(promise);
  const settled = () => set.delete(promise);
  promise.then(settled, settled);
  return promise;
}
