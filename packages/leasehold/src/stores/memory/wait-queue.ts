/** The wait queue of one namespace in memory: the waiters of each resource, in queue order. */
import type { QueuedWaiter } from "../../lease/index.js";
import {
  type Change,
  EMPTY_QUEUE,
  type LoadedQueue,
  type QueuePosition,
} from "../../store-kit/index.js";
import { SortedList } from "./sorted-list.js";

interface Arrived {
  readonly waiter: QueuedWaiter;
  readonly arrival: number;
}

export class WaitQueue {
  /** Holds only resources that have at least one waiter. */
  readonly #waiters = new Map<string, Waiters>();

  /** @param leaseId its position is needed */
  load(resource: string, leaseId: string | undefined, nowMs: number): LoadedQueue {
    // Most of the time there is no waiter.
    const live = this.#waiters.size > 0 ? this.#live(resource, nowMs) : undefined;
    return live?.load(leaseId) ?? EMPTY_QUEUE;
  }

  save({ resource, served, withdrawn, joins }: Change<unknown>): void {
    if (joins.length === 0 && (this.#waiters.size === 0 || !this.#waiters.has(resource))) return;
    const waiters = this.#waiters.get(resource) ?? new Waiters();
    this.#waiters.set(resource, waiters);
    if (served !== null) waiters.serve(served);
    for (const leaseId of withdrawn) waiters.delete(leaseId);
    for (const waiter of joins) waiters.put(waiter);
    if (!waiters.first) this.#waiters.delete(resource);
  }

  /** The live ones, in queue order. */
  waiters(resource: string, nowMs: number): readonly QueuedWaiter[] {
    return this.#live(resource, nowMs)?.all() ?? [];
  }

  first(resource: string, nowMs: number): QueuedWaiter | undefined {
    return this.#live(resource, nowMs)?.first?.waiter;
  }

  /** Deletes expired waiters. */
  collect(nowMs: number): void {
    for (const resource of this.#waiters.keys()) this.#live(resource, nowMs);
  }

  /** The waiters of a resource, without those that have expired; undefined if there are none. */
  #live(resource: string, nowMs: number): Waiters | undefined {
    const waiters = this.#waiters.get(resource);
    waiters?.collect(nowMs);
    if (waiters?.first) return waiters;
    this.#waiters.delete(resource);
    return undefined;
  }
}

/** The waiters of one resource. No step reads all of them, because a tenant chooses how many there are. */
class Waiters {
  readonly #byLeaseId = new Map<string, Arrived>();
  readonly #byArrival = new SortedList<Arrived>((a, b) => a.arrival - b.arrival);
  readonly #byExpiry = new SortedList<Arrived>(
    (a, b) => a.waiter.expiresAtMs - b.waiter.expiresAtMs || a.arrival - b.arrival,
  );
  #arrivals = 0;

  get first(): Arrived | undefined {
    return this.#byArrival.first;
  }

  all(): readonly QueuedWaiter[] {
    return Array.from(this.#byArrival.from(), ({ waiter }) => waiter);
  }

  load(leaseId: string | undefined): LoadedQueue {
    const positions = new Map<string, QueuePosition>();
    const own = leaseId === undefined ? undefined : this.#byLeaseId.get(leaseId);
    if (leaseId !== undefined && own) {
      const { expiresAtMs } = own.waiter;
      positions.set(leaseId, { ahead: this.#byArrival.before(own), expiresAtMs });
    }
    const firstHolder = this.first?.waiter.holder ?? "";
    return { count: this.#byLeaseId.size, firstHolder, positions };
  }

  /** Adds a waiter at the end, or replaces it in its old position, never for a shorter time. */
  put(waiter: QueuedWaiter): void {
    const before = this.#byLeaseId.get(waiter.leaseId);
    if (before) this.delete(waiter.leaseId);
    else this.#arrivals += 1;
    const promisedMs = before?.waiter.expiresAtMs ?? 0;
    const kept = waiter.expiresAtMs < promisedMs ? { ...waiter, expiresAtMs: promisedMs } : waiter;
    const arrived = { waiter: kept, arrival: before?.arrival ?? this.#arrivals };
    this.#byLeaseId.set(waiter.leaseId, arrived);
    this.#byArrival.add(arrived);
    this.#byExpiry.add(arrived);
  }

  /** Removes a waiter, and those before it. */
  serve(leaseId: string): void {
    const last = this.#byLeaseId.get(leaseId)?.arrival ?? 0;
    for (let { first } = this; first && first.arrival <= last; { first } = this) {
      this.delete(first.waiter.leaseId);
    }
  }

  delete(leaseId: string): void {
    const arrived = this.#byLeaseId.get(leaseId);
    if (!arrived) return;
    this.#byLeaseId.delete(leaseId);
    this.#byArrival.delete(arrived);
    this.#byExpiry.delete(arrived);
  }

  collect(nowMs: number): void {
    for (let next = this.#byExpiry.first; next; next = this.#byExpiry.first) {
      if (nowMs < next.waiter.expiresAtMs) return;
      this.delete(next.waiter.leaseId);
    }
  }
}
