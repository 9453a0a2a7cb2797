/** The wait queue of one namespace in memory: the waiters of each resource, in queue order. */
import { liveWaiters, type QueuedWaiter } from "../../core/index.js";

export class WaitQueue {
  /** Holds only resources that have at least one waiter. */
  readonly #waiters = new Map<string, readonly QueuedWaiter[]>();

  get(resource: string): readonly QueuedWaiter[] {
    return this.#waiters.get(resource) ?? [];
  }

  set(resource: string, waiters: readonly QueuedWaiter[]): void {
    if (waiters.length > 0) this.#waiters.set(resource, waiters);
    else this.#waiters.delete(resource);
  }

  first(resource: string, nowMs: number): QueuedWaiter | undefined {
    return liveWaiters(this.get(resource), nowMs)[0];
  }

  /** Removes a waiter. Returns true if it was the first and another waiter takes its position. */
  withdraw(resource: string, leaseId: string): boolean {
    const before = this.get(resource);
    const after = before.filter((waiter) => waiter.leaseId !== leaseId);
    this.set(resource, after);
    return before[0]?.leaseId === leaseId && after.length > 0;
  }

  /** Deletes expired waiters. */
  collect(nowMs: number): void {
    for (const [resource, waiters] of this.#waiters) {
      this.set(resource, liveWaiters(waiters, nowMs));
    }
  }
}
