/**
 * The leases that a client holds, by their resources. A map that items enter and leave all the time is copied again and
 * again, and its old copies keep their values from being collected while they are young. So the map has small entries,
 * which no longer refer to a lease that has ended.
 */
import type { HeldLease } from "./held-lease.js";

interface Entry {
  lease: HeldLease | undefined;
}

export class HeldLeases {
  readonly #entries = new Map<string, Entry>();

  has(resource: string): boolean {
    return this.#entries.has(resource);
  }

  get(resource: string): HeldLease | undefined {
    return this.#entries.get(resource)?.lease;
  }

  add(lease: HeldLease): void {
    this.#entries.set(lease.resource, { lease });
  }

  /** Unless a later lease has taken its place. */
  delete(lease: HeldLease): void {
    const entry = this.#entries.get(lease.resource);
    if (entry?.lease !== lease) return;
    entry.lease = undefined;
    this.#entries.delete(lease.resource);
  }

  list(): HeldLease[] {
    return Array.from(this.#entries.values()).flatMap(({ lease }) => lease ?? []);
  }
}
