/** How close to their expiry grants are renewed: from it a TTL can be chosen. */
import { Recent } from "../env/index.js";
import type { RenewOutcome, Term } from "../lease/index.js";
import type { Measuring } from "./stopwatch.js";

/** The most grants whose last renewal is remembered. */
const GRANTS = 10_000;

interface Last {
  readonly atMs: number;
  readonly ttlMs: number;
  readonly untilMs: number;
}

export class RenewalTimes {
  readonly #telemetry: Measuring["telemetry"];
  readonly #last = new Recent<Last>(GRANTS);

  constructor({ telemetry }: Measuring) {
    this.#telemetry = telemetry;
  }

  /** @param sentMs when the request was sent, by the monotonic clock */
  granted(leaseId: string, { ttlMs, remainingMs }: Term, sentMs: number): void {
    this.#last.set(leaseId, { atMs: sentMs, ttlMs, untilMs: sentMs + remainingMs });
  }

  /** A renewal that failed says nothing yet: its retry counts. */
  renewed(leaseId: string, outcome: RenewOutcome, sentMs: number): void {
    const last = this.#last.get(leaseId);
    const isLate = outcome.status === "lost" && outcome.reason === "expired";
    if (last && (outcome.status === "renewed" || isLate)) {
      const leftMs = Math.max(0, last.untilMs - sentMs);
      const delayMs = Math.max(0, sentMs - last.atMs - last.ttlMs / 3);
      this.#telemetry.measure("leasehold.lease.renew.left", {}, leftMs);
      this.#telemetry.measure("leasehold.lease.renew.delay", {}, delayMs);
    }
    if (outcome.status === "renewed") this.granted(leaseId, outcome, sentMs);
    else if (outcome.status === "lost") this.#last.delete(leaseId);
  }

  ended(leaseId: string): void {
    this.#last.delete(leaseId);
  }
}
