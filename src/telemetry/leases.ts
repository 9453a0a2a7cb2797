/** A store whose calls are counted, timed and traced. */
import type { Clock, LabelsOf, MeasureOptions, Telemetry } from "../env/index.js";
import type { AcquireOutcome, Key, LeaseStore, LeaseView, RenewOutcome } from "../lease/index.js";

export interface Measuring {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
}

type Calls = LabelsOf<"leasehold.store.duration">;

/** Times a call to a store under a span; a batch in which a request failed has failed. */
export function timed<T>(
  { clock, telemetry }: Measuring,
  store: Calls["store"],
  operation: Calls["operation"],
  requests: number,
  call: () => Promise<T>,
): Promise<T> {
  const attributes = { "leasehold.operation": operation, "leasehold.requests": requests };
  return telemetry.span(`leasehold.store ${operation}`, { attributes }, async (span) => {
    const sentMs = clock.monotonic();
    let outcome: Calls["outcome"] = "failed";
    try {
      const answer = await call();
      if (![answer].flat().some(isFailed)) outcome = "ok";
      return answer;
    } finally {
      if (outcome === "failed") span.fail();
      const labels = { store, operation, outcome };
      telemetry.measure("leasehold.store.duration", labels, clock.monotonic() - sentMs);
    }
  });
}

function isFailed(outcome: unknown): boolean {
  return (outcome as { status?: unknown } | null)?.status === "failed";
}

/** What each request of a call that threw has come to. */
const THROWN = { status: "failed" } as const;

export function measuredLeases(
  store: LeaseStore,
  measuring: Measuring,
  { serves = false, prefixesOf }: MeasureOptions = {},
): LeaseStore {
  const { telemetry } = measuring;

  const blame = (what: "contended" | "endangered", { namespace, resource }: Key) => {
    telemetry.blame(what, prefixesOf === undefined || prefixesOf === namespace ? resource : "");
  };
  const tellAcquire = (outcome: AcquireOutcome | typeof THROWN, key: Key) => {
    telemetry.count("leasehold.lease.acquire.attempts", { outcome: outcome.status });
    if (outcome.status === "held") blame("contended", key);
    if (outcome.status === "acquired" && outcome.replaced) tellReplaced(outcome.replaced);
  };
  const tellReplaced = ({ state, grantedAt, expiresAt }: LeaseView) => {
    if (state === "expired") telemetry.count("leasehold.lease.reclaimed", {});
    if (!serves || state === "live" || grantedAt === null || expiresAt === null) return;
    // Both by the store's clock.
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
    operation: Calls["operation"],
    requests: readonly Request[],
    call: () => Promise<Outcome[]>,
    tell: (outcome: Outcome | typeof THROWN, request: Request) => void,
  ): Promise<Outcome[]> => {
    let outcomes: Outcome[] | undefined;
    try {
      outcomes = await timed(measuring, "leases", operation, requests.length, call);
      return outcomes;
    } finally {
      for (const [index, request] of requests.entries()) tell(outcomes?.[index] ?? THROWN, request);
    }
  };

  return {
    capabilities: store.capabilities,
    acquire(requests, given) {
      const call = () => store.acquire(requests, { ...given, tellReplaced: true });
      return tellingEach("acquire", requests, call, tellAcquire);
    },
    renew(requests, given) {
      return tellingEach("renew", requests, () => store.renew(requests, given), tellRenew);
    },
    release(requests, given) {
      const call = () => store.release(requests, given);
      return tellingEach("release", requests, call, ({ status: outcome }) =>
        telemetry.count("leasehold.lease.release.attempts", { outcome }),
      );
    },
    revoke(requests, given) {
      const call = () => store.revoke(requests, given);
      return tellingEach("revoke", requests, call, ({ status: outcome }) =>
        telemetry.count("leasehold.lease.revokes", { outcome }),
      );
    },
    get: (keys) => store.get(keys),
    list: (query) => store.list(query),
    watch: (namespace, watching) => store.watch(namespace, watching),
    collect: (olderThanMs) => store.collect(olderThanMs),
    close: () => store.close(),
  };
}
