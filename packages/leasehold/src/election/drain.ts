/**
 * Work under a lease, which has a grace to stop when it is told to.
 *
 *   working ──the signal aborts──▶ stopping ──it ends──▶ its lease is released, unless it was lost
 *                                     │
 *                                     └─graceMs─▶ overdue: the lease is renewed no more, and who waits
 *                                                 for the end waits no longer (STILL_RUNNING)
 *
 * What is overdue cannot be cut off: it may write for as long as it runs. So its lease is not released:
 * until that expires nobody else begins, and after that the token protects. If the work ends before, the
 * lease is released all the same. Nothing new begins here until the work has ended.
 */

import { type HeldLease, type LeaseClient, StillRunningError } from "../core/index.js";
import { sleep } from "../env/index.js";

export class Drain {
  readonly #leases: LeaseClient;
  readonly #graceMs: number;
  readonly #of: "elector" | "singleton";
  #overdue: StillRunningError | undefined;
  readonly #looks = new Set<() => void>();

  constructor(leases: LeaseClient, graceMs: number, of: "elector" | "singleton") {
    this.#leases = leases;
    this.#graceMs = graceMs;
    this.#of = of;
  }

  /** Does the work, and sees to its end when the signal of its lease has aborted. */
  async watch(lease: HeldLease, work: () => PromiseLike<void>): Promise<void> {
    const ended = new AbortController();
    const told = () => void this.#grace(lease, ended.signal);
    lease.signal.addEventListener("abort", told, { once: true, signal: ended.signal });
    // A client that closes meanwhile does not release it either.
    lease.isWorkedUnder = true;
    const { telemetry } = this.#leases.env;
    const term = { of: this.#of };
    telemetry?.count("leasehold.election.terms", term);
    telemetry?.change("leasehold.election.leading", term, 1);
    try {
      await work();
    } finally {
      telemetry?.change("leasehold.election.leading", term, -1);
      lease.isWorkedUnder = false;
      ended.abort();
      this.#overdue = undefined;
    }
  }

  /**
   * Waits for the end of what includes the work. If the work is overdue already, it gets another grace.
   * @param isLeaving whether to wait no longer once the work is overdue; else it is waited for
   * @throws STILL_RUNNING
   */
  async until(end: Promise<void>, isLeaving = () => true): Promise<void> {
    let look = () => {};
    const overdue = new Promise<never>((_, reject) => {
      look = () => {
        if (this.#overdue && isLeaving()) reject(this.#overdue);
      };
    });
    const settled = new AbortController();
    this.#looks.add(look);
    if (this.#overdue) void this.#pause(settled.signal).then(look);
    try {
      await Promise.race([end, overdue]);
    } finally {
      this.#looks.delete(look);
      settled.abort();
    }
  }

  /** Whether somebody is leaving may have changed. */
  readonly look = (): void => {
    for (const look of this.#looks) look();
  };

  async #grace(lease: HeldLease, ended: AbortSignal): Promise<void> {
    await this.#pause(ended);
    if (ended.aborted) return;
    lease.letExpire();
    this.#overdue = new StillRunningError(lease.resource, this.#graceMs);
    const { resource, grantId } = lease;
    this.#leases.env.logger.error(
      { err: this.#overdue, resource, grantId },
      "the work does not stop",
    );
    this.look();
  }

  #pause(signal: AbortSignal): Promise<void> {
    return sleep(this.#leases.env.clock, this.#graceMs, { signal }).catch(() => {});
  }
}
