/** What goes wrong with work that runs under a lease, apart from the lease itself. */
import { LeaseholdError } from "./errors.js";

/**
 * Work was asked to stop, and still runs `graceMs` milliseconds later. Its lease is not released but left to expire, so
 * that no other node works at the same time. Let the work heed its signal, or end the process.
 * @example
 * ```ts
 * import { setTimeout as ignoreSignal } from "node:timers/promises";
 * import { connect, StillRunningError } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const leaving = new AbortController();
 * const work = () => {
 *   leaving.abort();
 *   return ignoreSignal(100);
 * };
 * await leasehold.elector("cluster", { graceMs: 10 }).lead(work, leaving).catch((error) => {
 *   if (!(error instanceof StillRunningError)) throw error;
 *   console.log(error.resource, "is still worked on after", error.graceMs, "ms");
 * });
 * await leasehold.close();
 * ```
 */
export class StillRunningError extends LeaseholdError {
  constructor(
    readonly resource: string,
    readonly graceMs: number,
  ) {
    super(
      "STILL_RUNNING",
      `the work on "${resource}" still runs, graceMs = ${graceMs} after its signal aborted, so its lease is not released ` +
        "but expires: end the work when its signal aborts, raise graceMs, or end the process",
      { retryable: true, outcome: "unknown" },
    );
  }
}

/**
 * The code already runs under the lease on `resource`, and would wait for itself. Use the lease that it has.
 * @example
 * ```ts
 * import { connect, NestedRunError } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const nested = () => leasehold.run("billing", () => "never called");
 * const error = await leasehold.run("billing", nested).catch((error) => error);
 * console.log(error instanceof NestedRunError, error.resource);
 * await leasehold.close();
 * ```
 */
export class NestedRunError extends LeaseholdError {
  constructor(readonly resource: string) {
    const message = `this code already runs under the lease on "${resource}", and would wait for itself: use that lease`;
    super("NESTED_RUN", message, { retryable: false, outcome: "none" });
  }
}
