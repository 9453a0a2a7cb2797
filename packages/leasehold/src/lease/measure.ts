/** Metrics and traces of a client's leases. instrumentation/ measures the calls to its store. */
import type { Env, Telemetry } from "../env/index.js";
import { LeaseUnavailableError } from "./errors.js";
import { HeldLease } from "./held-lease.js";

/** Times and traces one acquire, from the call until the caller has the lease or gives up. */
export function measureAcquire<T>(env: Env, ask: () => Promise<T>): Promise<T> {
  const { telemetry, clock } = env;
  if (!telemetry) return ask();
  return telemetry.span("leasehold acquire", {}, async (span) => {
    const sinceMs = clock.monotonic();
    let outcome: "acquired" | "held" | "failed" = "failed";
    try {
      const answer = await ask();
      outcome = answer instanceof HeldLease ? "acquired" : "held";
      return answer;
    } catch (error) {
      if (error instanceof LeaseUnavailableError) outcome = "held";
      throw error;
    } finally {
      span.set({ "leasehold.outcome": outcome });
      const tookMs = clock.monotonic() - sinceMs;
      telemetry.measure("leasehold.lease.acquire.duration", { outcome }, tookMs);
    }
  });
}

/** When each held lease was granted, oldest first, by the telemetry that reports it. */
const SINCE = new WeakMap<Telemetry, Map<HeldLease, number>>();

export function measureHeld({ telemetry, clock }: Env, lease: HeldLease): void {
  if (!telemetry) return;
  const since = SINCE.get(telemetry) ?? new Map<HeldLease, number>();
  if (!SINCE.has(telemetry)) {
    SINCE.set(telemetry, since);
    telemetry.observe("leasehold.lease.held.age.max", () => {
      const [oldestMs] = since.values();
      if (oldestMs === undefined) return [];
      return [{ value: (clock.monotonic() - oldestMs) / 1_000, labels: {} }];
    });
  }
  since.set(lease, clock.monotonic());
  telemetry.change("leasehold.lease.held", {}, 1);
}

export function measureEnded({ telemetry, clock }: Env, lease: HeldLease): void {
  if (!telemetry) return;
  const since = SINCE.get(telemetry);
  const sinceMs = since?.get(lease);
  if (sinceMs === undefined) return;
  since?.delete(lease);
  telemetry.change("leasehold.lease.held", {}, -1);
  // An expiry that was meant is an end like a release.
  const reason = lease.isToExpire ? undefined : lease.lostError?.reason;
  if (reason) telemetry.count("leasehold.lease.losses", { reason });
  const ended = reason ? "lost" : "released";
  telemetry.measure("leasehold.lease.hold.duration", { ended }, clock.monotonic() - sinceMs);
}
