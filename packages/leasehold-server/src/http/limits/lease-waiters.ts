/**
 * The lease ids of each tenant that wait for a resource, as this instance has answered them. A store keeps a queue
 * position for each, so that a tenant without a limit could fill its memory, and make each request search longer.
 */
import type { Clock } from "leasehold";
import { type AcquireRequest, LONGEST_WAITER_MS } from "leasehold/internal";
import { tooMany } from "../problems.js";

/** Of one tenant at one instance. @internal */
export const MOST_LEASE_WAITERS = 10_000;
/** Expired ones are looked for this often at most. */
const SWEEP_EVERY_MS = 1_000;

type Waiter = Pick<AcquireRequest, "resource" | "leaseId" | "queueMs">;

export class LeaseWaiters {
  readonly #clock: Clock;
  readonly #most: number;
  /** When each waiter expires. The tenant that was swept last is the last one. */
  readonly #tenants = new Map<string, Map<string, number>>();
  #sweptMs = -Infinity;

  constructor(clock: Clock, most = MOST_LEASE_WAITERS) {
    this.#clock = clock;
    this.#most = most;
  }

  /**
   * Requests that would wait are refused while there is no room for their waiters; those that wait already are not.
   * @throws LIMIT_REACHED
   */
  check(namespace: string, requests: readonly Waiter[]): void {
    this.#sweepOften(namespace);
    const known = this.#tenants.get(namespace);
    const added = requests.filter(
      (request) => (request.queueMs ?? 0) > 0 && !known?.has(nameOf(request)),
    ).length;
    if (added === 0 || (known?.size ?? 0) + added <= this.#most) return;
    const detail = `at most ${this.#most} requests of a tenant may wait for leases at one instance: ask without queueMs, or later`;
    throw tooMany("LIMIT_REACHED", detail, SWEEP_EVERY_MS);
  }

  /** Notes what has become of a request: whether it waits now. */
  note(namespace: string, request: Waiter, isRefused: boolean): void {
    const { queueMs = 0 } = request;
    const known = this.#tenants.get(namespace);
    if (isRefused && queueMs > 0) {
      const untilMs = this.#clock.monotonic() + Math.min(queueMs, LONGEST_WAITER_MS);
      const waiters = known ?? new Map<string, number>();
      waiters.set(nameOf(request), untilMs);
      this.#tenants.set(namespace, waiters);
    } else if (known && !isRefused && known.delete(nameOf(request)) && known.size === 0) {
      this.#tenants.delete(namespace);
    }
  }

  /** Sweeps the caller's tenant, and the one that was swept least recently: it may make no more requests. */
  #sweepOften(namespace: string): void {
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#sweptMs < SWEEP_EVERY_MS) return;
    this.#sweptMs = nowMs;
    const [oldest = namespace] = this.#tenants.keys();
    for (const tenant of new Set([oldest, namespace])) {
      const waiters = this.#tenants.get(tenant);
      if (!waiters) continue;
      for (const [name, untilMs] of waiters) {
        if (untilMs <= nowMs) waiters.delete(name);
      }
      this.#tenants.delete(tenant);
      if (waiters.size > 0) this.#tenants.set(tenant, waiters);
    }
  }
}

function nameOf({ resource, leaseId }: Waiter): string {
  return `${leaseId} ${resource}`;
}
