/**
 * The time of this process's only thread that each tenant may take for work whose length it chooses: searches for the fire
 * times of its cron expressions. It is a tenth, and a quarter of a second beyond it now
 * and then. A tenant that has taken more waits.
 */
import type { Clock } from "leasehold";
import { tooMany } from "../problems.js";

const SHARE = 0.1;
const BURST_MS = 250;

interface Time {
  leftMs: number;
  atMs: number;
}

export class ThreadShare {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #times = new Map<string, Time>();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /**
   * @param work such as "checking the schedules of this tenant"
   * @throws TOO_MANY_REQUESTS if the tenant has taken its time
   */
  check(tenant: string, work: string): void {
    const { leftMs } = this.#of(tenant);
    if (leftMs > 0) return;
    throw tooMany("TOO_MANY_REQUESTS", `${work} takes too long`, (1 - leftMs) / SHARE);
  }

  take(tenant: string, ms: number): void {
    this.#of(tenant).leftMs -= ms;
  }

  /** Forgets tenants that have all their time: a new one has it too. */
  forget(): void {
    for (const tenant of this.#times.keys()) {
      if (this.#of(tenant).leftMs >= BURST_MS) this.#times.delete(tenant);
    }
  }

  #of(tenant: string): Time {
    const atMs = this.#clock.monotonic();
    const last = this.#times.get(tenant) ?? { leftMs: BURST_MS, atMs };
    const leftMs = Math.min(BURST_MS, last.leftMs + (atMs - last.atMs) * SHARE);
    const time = { leftMs, atMs };
    this.#times.set(tenant, time);
    return time;
  }
}
