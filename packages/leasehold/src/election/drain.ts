/**
 * Work under a lease, with a grace period in which it must stop when asked to.
 *
 *   working ──the signal aborts──▶ stopping ──it ends──▶ its lease is released, unless it was lost
 *                                     │
 *                                     └─graceMs─▶ overdue: renewals stop, and callers that wait for
 *                                                 the end reject (STILL_RUNNING)
 *
 * Overdue work cannot be cut off: it may write for as long as it runs. So its lease is not released. No
 * other node starts until the lease expires, and after that the token protects. If the work ends first,
 * the lease is released. This node starts no new work until the old work has ended.
 */

import { sleep } from "../env/index.js";
import { type HeldLease, type LeaseClient, StillRunningError } from "../lease/index.js";

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

  /** Runs the work, and enforces the grace period once the signal of its lease aborts. */
  async watch(lease: HeldLease, work: () => PromiseLike<void>): Promise<void> {
    const ended = new AbortController();
    const onAbort = () => void this.#grace(lease, ended.signal);
    lease.signal.addEventListener("abort", onAbort, { signal: ended.signal });
    const { telemetry } = this.#leases.env;
    const term = { of: this.#of };
    telemetry?.tally("terms", lease.resource);
    telemetry?.change("leasehold.election.leading", term, 1);
    try {
      await work();
    } finally {
      telemetry?.change("leasehold.election.leading", term, -1);
      ended.abort();
      this.#overdue = undefined;
    }
  }

  /**
   * Waits for the end of a call that includes the work. Work that is already overdue gets another grace
   * period.
   * @param isLeaving whether to reject once the work is overdue, instead of waiting for it
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

  /** Evaluates `isLeaving` again. */
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
