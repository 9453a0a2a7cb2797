/** Wraps a lease store to count, time and trace its calls. */

import { markOf } from "../election/leadership.js";
import { type MeasureOptions, Recent, type Tallied } from "../env/index.js";
import type {
  AcquireOutcome,
  AcquireRequest,
  Key,
  LeaseStore,
  LeaseView,
  RenewOutcome,
  RenewRequest,
} from "../lease/index.js";
import { RenewalTimes } from "./renewal-times.js";
import { type Measuring, overriding, timed } from "./stopwatch.js";

/** The outcome of each request in a call that threw. */
const THROWN = { status: "failed" } as const;
/** The most elections whose last token is kept. */
const ELECTIONS = 10_000;
/** The most lost leases that are remembered. */
const LOSSES = 10_000;

export function measuredLeases(
  store: LeaseStore,
  measuring: Measuring,
  { serves = false, namesOf }: MeasureOptions = {},
): LeaseStore {
  const { telemetry, clock } = measuring;
  const times = new RenewalTimes(measuring);
  const timedStore = timed(store, "leases", ["acquire", "renew", "release", "revoke"], measuring);

  const tally = (what: Tallied, { namespace, resource }: Key) => {
    telemetry.tally(what, namesOf === undefined || namesOf === namespace ? resource : "");
  };
  const tellAcquire = (
    outcome: AcquireOutcome | typeof THROWN,
    request: AcquireRequest,
    sentMs: number,
  ) => {
    telemetry.count("leasehold.lease.acquire.attempts", { outcome: outcome.status });
    if (outcome.status === "held") tally("contended", request);
    if (outcome.status !== "acquired") return;
    times.granted(request.leaseId, outcome, sentMs);
    if (outcome.replaced) returnReplaced(outcome.replaced);
    if (serves && isTerm(request)) tellTerm(request, outcome.token);
  };
  const tokens = new Recent<number>(ELECTIONS);
  const tellTerm = (request: AcquireRequest, token: number) => {
    // A repeated request gets the same grant.
    const election = JSON.stringify([request.namespace, request.resource]);
    if (tokens.get(election) !== token) tally("terms", request);
    tokens.set(election, token);
  };
  const returnReplaced = ({ state, grantedAt, expiresAt }: LeaseView) => {
    if (state === "expired") telemetry.count("leasehold.lease.reclaimed", {});
    if (!serves || state === "live" || grantedAt === null || expiresAt === null) return;
    // Both times are from the store's clock.
    const heldMs = Math.max(0, Date.parse(expiresAt) - Date.parse(grantedAt));
    telemetry.measure("leasehold.lease.hold.duration", { ended: state }, heldMs);
  };
  const losses = new Recent<true>(LOSSES);
  const tellRenew = (
    outcome: RenewOutcome | typeof THROWN,
    request: RenewRequest,
    sentMs: number,
  ) => {
    telemetry.count("leasehold.lease.renew.attempts", { outcome: outcome.status });
    if (outcome !== THROWN) times.renewed(request.leaseId, outcome as RenewOutcome, sentMs);
    if (outcome.status === "renewed") return;
    tally("endangered", request);
    if (!serves || outcome.status !== "lost" || losses.has(request.leaseId)) return;
    // A holder that got no answer asks again.
    losses.set(request.leaseId, true);
    telemetry.count("leasehold.lease.losses", { reason: outcome.reason });
  };
  const tellingEach = async <Request, Outcome>(
    requests: readonly Request[],
    call: Promise<Outcome[]>,
    tell: (outcome: Outcome | typeof THROWN, request: Request, sentMs: number) => void,
  ): Promise<Outcome[]> => {
    const sentMs = clock.monotonic();
    let outcomes: Outcome[] | undefined;
    try {
      outcomes = await call;
      return outcomes;
    } finally {
      for (const [index, request] of requests.entries()) {
        tell(outcomes?.[index] ?? THROWN, request, sentMs);
      }
    }
  };

  return overriding(timedStore, {
    acquire(requests, given) {
      const asked = { ...given, returnReplaced: true };
      return tellingEach(requests, timedStore.acquire(requests, asked), tellAcquire);
    },
    renew: (requests, given) => tellingEach(requests, timedStore.renew(requests, given), tellRenew),
    release: (requests, given) =>
      tellingEach(requests, timedStore.release(requests, given), ({ status: outcome }, request) => {
        telemetry.count("leasehold.lease.release.attempts", { outcome });
        if (outcome === "released") times.ended(request.leaseId);
      }),
    revoke: (requests, given) =>
      tellingEach(requests, timedStore.revoke(requests, given), ({ status: outcome }) =>
        telemetry.count("leasehold.lease.revokes", { outcome }),
      ),
  });
}

/** Whether the request is for a term of an elector or a singleton. */
function isTerm({ metadata }: AcquireRequest): boolean {
  const mark = markOf({ metadata: metadata ?? null });
  return mark === "elector" || mark === "singleton";
}
