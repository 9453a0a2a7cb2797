/** Wraps a lease store to count, time and trace its calls. */

import type { AcquireOutcome, Key, LeaseStore, LeaseView, RenewOutcome } from "../core/index.js";
import type { MeasureOptions } from "../env/index.js";
import { type Measuring, overriding, timed } from "./stopwatch.js";

/** The outcome of each request in a call that threw. */
const THROWN = { status: "failed" } as const;

export function measuredLeases(
  store: LeaseStore,
  measuring: Measuring,
  { serves = false, prefixesOf }: MeasureOptions = {},
): LeaseStore {
  const { telemetry } = measuring;
  const timedStore = timed(store, "leases", ["acquire", "renew", "release", "revoke"], measuring);

  const blame = (what: "contended" | "endangered", { namespace, resource }: Key) => {
    telemetry.blame(what, prefixesOf === undefined || prefixesOf === namespace ? resource : "");
  };
  const tellAcquire = (outcome: AcquireOutcome | typeof THROWN, key: Key) => {
    telemetry.count("leasehold.lease.acquire.attempts", { outcome: outcome.status });
    if (outcome.status === "held") blame("contended", key);
    if (outcome.status === "acquired" && outcome.replaced) returnReplaced(outcome.replaced);
  };
  const returnReplaced = ({ state, grantedAt, expiresAt }: LeaseView) => {
    if (state === "expired") telemetry.count("leasehold.lease.reclaimed", {});
    if (!serves || state === "live" || grantedAt === null || expiresAt === null) return;
    // Both times are from the store's clock.
    const heldMs = Math.max(0, Date.parse(expiresAt) - Date.parse(grantedAt));
    telemetry.measure("leasehold.lease.hold.duration", { ended: state }, heldMs);
  };
  const tellRenew = (outcome: RenewOutcome | typeof THROWN, key: Key) => {
    telemetry.count("leasehold.lease.renew.attempts", { outcome: outcome.status });
    if (outcome.status === "renewed") return;
    blame("endangered", key);
    if (!serves || outcome.status !== "lost") return;
    telemetry.count("leasehold.lease.losses", { reason: outcome.reason });
  };
  const tellingEach = async <Request, Outcome>(
    requests: readonly Request[],
    call: Promise<Outcome[]>,
    tell: (outcome: Outcome | typeof THROWN, request: Request) => void,
  ): Promise<Outcome[]> => {
    let outcomes: Outcome[] | undefined;
    try {
      outcomes = await call;
      return outcomes;
    } finally {
      for (const [index, request] of requests.entries()) tell(outcomes?.[index] ?? THROWN, request);
    }
  };

  return overriding(timedStore, {
    acquire(requests, given) {
      const asked = { ...given, returnReplaced: true };
      return tellingEach(requests, timedStore.acquire(requests, asked), tellAcquire);
    },
    renew: (requests, given) => tellingEach(requests, timedStore.renew(requests, given), tellRenew),
    release: (requests, given) =>
      tellingEach(requests, timedStore.release(requests, given), ({ status: outcome }) =>
        telemetry.count("leasehold.lease.release.attempts", { outcome }),
      ),
    revoke: (requests, given) =>
      tellingEach(requests, timedStore.revoke(requests, given), ({ status: outcome }) =>
        telemetry.count("leasehold.lease.revokes", { outcome }),
      ),
  });
}
