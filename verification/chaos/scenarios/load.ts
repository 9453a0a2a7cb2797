/** Clients that acquire a lease on a new resource and enqueue a task, repeatedly, until stop() is called. */
import { setTimeout as delay } from "node:timers/promises";
import type { Lease, Leasehold } from "leasehold";
import type { TaskWork } from "./task-work.js";

const CLIENTS = 4;
const TTL_MS = 600_000;

export class Load<Held> {
  /** In the order in which they were answered. */
  readonly grants: Held[] = [];
  /** Requests that the store has refused, again and again for seconds, or left without an answer. */
  readonly refusals: unknown[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #running: Promise<void>[] = [];
  #over = false;

  constructor(
    readonly leases: Leasehold,
    readonly note: (lease: Lease) => Held,
    readonly tasks: TaskWork | undefined,
    /** Of each client after each request. */
    readonly pauseMs = 10,
  ) {}

  start(): void {
    for (let client = 1; client <= CLIENTS; client += 1) this.#running.push(this.#run(client));
  }

  /** Resolves when this is true of what was answered. */
  async until(holds: (load: this) => boolean): Promise<void> {
    while (!holds(this)) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  /** Resolves when every request has been answered or given up. */
  async stop(): Promise<void> {
    this.#over = true;
    await Promise.all(this.#running);
  }

  async #run(client: number): Promise<void> {
    for (let at = 1; !this.#over; at += 1) {
      try {
        const name = `load-${client}-${at}`;
        const lease = await this.leases.tryAcquire(name, { ttlMs: TTL_MS, autoRenew: false });
        if (!lease) throw new Error(`${name} is new, but was not granted`);
        this.grants.push(this.note(lease));
        await this.tasks?.enqueueLate();
      } catch (error) {
        this.refusals.push(error);
      }
      for (const wake of this.#waiting) wake();
      this.#waiting.clear();
      await delay(this.pauseMs);
    }
  }
}
