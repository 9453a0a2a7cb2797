/** The waiters of one namespace in memory: the tickets of each resource, in their order. */
import { queue, type Ticket } from "../../core/index.js";

export class WaitQueue {
  /** No resource is in it without a ticket. */
  readonly #tickets = new Map<string, readonly Ticket[]>();

  get(resource: string): readonly Ticket[] {
    return this.#tickets.get(resource) ?? [];
  }

  set(resource: string, tickets: readonly Ticket[]): void {
    if (tickets.length > 0) this.#tickets.set(resource, tickets);
    else this.#tickets.delete(resource);
  }

  first(resource: string, nowMs: number): Ticket | undefined {
    return queue.liveTickets(this.get(resource), nowMs)[0];
  }

  /** Removes a waiter; whether it was the first, and its place passes on to another. */
  withdraw(resource: string, leaseId: string): boolean {
    const before = this.get(resource);
    const after = before.filter((ticket) => ticket.leaseId !== leaseId);
    this.set(resource, after);
    return before[0]?.leaseId === leaseId && after.length > 0;
  }

  /** Deletes tickets that have expired. */
  collect(nowMs: number): void {
    for (const [resource, tickets] of this.#tickets) {
      this.set(resource, queue.liveTickets(tickets, nowMs));
    }
  }
}
