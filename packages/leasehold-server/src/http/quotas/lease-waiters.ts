/** The store keeps a position in its queue for each lease id that waits for a resource: how many a tenant may have. */
import type { Clock } from "leasehold";
import { type AcquireRequest, LONGEST_WAITER_MS } from "leasehold/internal";
import { tooMany } from "../problems.js";

/** @internal */
export const MOST_LEASE_WAITERS = 10_000;
const RETRY_MS = 1_000;

/** A request for a lease that may wait. */
export type LeaseWaiter = Pick<AcquireRequest, "resource" | "leaseId" | "queueMs">;

/** The waiters of one tenant at this instance. */
interface Waiters {
  /** When each gives up. */
  readonly untilMs: Map<string, number>;
  forgottenMs: number;
}

export class LeaseWaiters {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #tenants = new Map<string, Waiters>();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /**
   * Requests that would wait are refused while there is no room for them; those that wait already are not.
   * @throws LIMIT_REACHED
   */
  check(namespace: string, requests: readonly LeaseWaiter[]): void {
    if (!requests.some(waits)) return;
    const waiters = this.#of(namespace);
    const { untilMs, forgottenMs } = waiters;
    const isNew = (request: LeaseWaiter) => waits(request) && !untilMs.has(nameOf(request));
    const added = requests.filter(isNew).length;
    const isFull = () => added > 0 && untilMs.size + added > MOST_LEASE_WAITERS;
    // Once a second: a tenant at its limit asks often.
    if (isFull() && this.#clock.monotonic() - forgottenMs >= RETRY_MS) this.#forget(waiters);
    if (!isFull()) return;
    const detail = `at most ${MOST_LEASE_WAITERS} requests of a tenant may wait for leases at one instance: ask without queueMs, or later`;
    throw tooMany("waits", detail, RETRY_MS);
  }

  /** Notes what has become of a request: whether it waits now. */
  note(namespace: string, request: LeaseWaiter, isRefused: boolean): void {
    const { queueMs = 0 } = request;
    const { untilMs } = this.#of(namespace);
    if (!isRefused) {
      if (untilMs.size > 0) untilMs.delete(nameOf(request));
    } else if (queueMs > 0) {
      const waitsMs = Math.min(queueMs, LONGEST_WAITER_MS);
      untilMs.set(nameOf(request), this.#clock.monotonic() + waitsMs);
    }
  }

  /** Drops what waits no more. */
  forget(): void {
    for (const waiters of this.#tenants.values()) this.#forget(waiters);
  }

  #forget(waiters: Waiters): void {
    const nowMs = this.#clock.monotonic();
    waiters.forgottenMs = nowMs;
    for (const [name, untilMs] of waiters.untilMs) {
      if (untilMs <= nowMs) waiters.untilMs.delete(name);
    }
  }

  #of(namespace: string): Waiters {
    let waiters = this.#tenants.get(namespace);
    if (!waiters) {
      waiters = { untilMs: new Map(), forgottenMs: -Infinity };
      this.#tenants.set(namespace, waiters);
    }
    return waiters;
  }
}

function waits({ queueMs = 0 }: LeaseWaiter): boolean {
  return queueMs > 0;
}

function nameOf({ resource, leaseId }: LeaseWaiter): string {
  return `${leaseId} ${resource}`;
}
