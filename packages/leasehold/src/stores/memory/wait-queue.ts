/** The wait queue of one namespace in memory: the waiters of each resource, in queue order. */
import type { QueuedWaiter } from "../../core/index.js";
import { SortedList } from "./sorted-list.js";

interface Arrived {
  readonly waiter: QueuedWaiter;
  readonly arrival: number;
}

/** Where a request stands: how many live waiters are ahead of it, and who is the first of them. */
interface Position {
  readonly ahead: number;
  readonly holder: string;
}
const NO_WAITERS: Position = { ahead: 0, holder: "" };

export class WaitQueue {
  /** Holds only resources that have at least one waiter. */
  readonly #waiters = new Map<string, Waiters>();

  get(resource: string): readonly QueuedWaiter[] {
    return this.#waiters.get(resource)?.all() ?? [];
  }

  first(resource: string, nowMs: number): QueuedWaiter | undefined {
    return this.#live(resource, nowMs)?.first?.waiter;
  }

  /** Of a lease id without a waiter, all are ahead. */
  position(resource: string, leaseId: string, nowMs: number): Position {
    const live = this.#waiters.size > 0 ? this.#live(resource, nowMs) : undefined;
    if (!live) return NO_WAITERS;
    return { ahead: live.ahead(leaseId), holder: live.first?.waiter.holder ?? "" };
  }

  /** Adds a waiter at the end, or replaces it in its old position, never for a shorter time. */
  put(resource: string, waiter: QueuedWaiter): void {
    const waiters = this.#waiters.get(resource) ?? new Waiters();
    this.#waiters.set(resource, waiters);
    waiters.put(waiter);
  }

  /** Removes the waiter of a granted request, and those ahead of it, which were passed over. */
  serve(resource: string, leaseId: string): void {
    this.#waiters.get(resource)?.serve(leaseId);
    this.#forgetIfEmpty(resource);
  }

  /** Removes a waiter. Returns true if it was the first and another waiter takes its position. */
  withdraw(resource: string, leaseId: string, nowMs: number): boolean {
    const live = this.#live(resource, nowMs);
    const arrived = live?.get(leaseId);
    if (!live || !arrived) return false;
    const wasFirst = live.first === arrived;
    live.delete(arrived);
    this.#forgetIfEmpty(resource);
    return wasFirst && live.first !== undefined;
  }

  /** Deletes expired waiters. */
  collect(nowMs: number): void {
    for (const resource of this.#waiters.keys()) this.#live(resource, nowMs);
  }

  /** The waiters of a resource, without those that have expired; undefined if there are none. */
  #live(resource: string, nowMs: number): Waiters | undefined {
    this.#waiters.get(resource)?.collect(nowMs);
    this.#forgetIfEmpty(resource);
    return this.#waiters.get(resource);
  }

  #forgetIfEmpty(resource: string): void {
    if (this.#waiters.get(resource)?.first === undefined) this.#waiters.delete(resource);
  }
}

/** The waiters of one resource. No step looks at all of them, because a tenant chooses how many there are. */
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

  get(leaseId: string): Arrived | undefined {
    return this.#byLeaseId.get(leaseId);
  }

  all(): readonly QueuedWaiter[] {
    return Array.from(this.#byArrival.from(), ({ waiter }) => waiter);
  }

  ahead(leaseId: string): number {
    const arrived = this.#byLeaseId.get(leaseId);
    return arrived ? this.#byArrival.before(arrived) : this.#byLeaseId.size;
  }

  put(waiter: QueuedWaiter): void {
    const before = this.#byLeaseId.get(waiter.leaseId);
    if (before) this.delete(before);
    else this.#arrivals += 1;
    const promisedMs = before?.waiter.expiresAtMs ?? 0;
    const arrived = {
      waiter: waiter.expiresAtMs < promisedMs ? { ...waiter, expiresAtMs: promisedMs } : waiter,
      arrival: before?.arrival ?? this.#arrivals,
    };
    this.#byLeaseId.set(waiter.leaseId, arrived);
    this.#byArrival.add(arrived);
    this.#byExpiry.add(arrived);
  }

  serve(leaseId: string): void {
    const served = this.#byLeaseId.get(leaseId);
    if (!served) return;
    for (let first = this.first; first && first.arrival <= served.arrival; first = this.first) {
      this.delete(first);
    }
  }

  delete(arrived: Arrived): void {
    this.#byLeaseId.delete(arrived.waiter.leaseId);
    this.#byArrival.delete(arrived);
    this.#byExpiry.delete(arrived);
  }

  collect(nowMs: number): void {
    for (let next = this.#byExpiry.first; next; next = this.#byExpiry.first) {
      if (nowMs < next.waiter.expiresAtMs) return;
      this.delete(next);
    }
  }
}
