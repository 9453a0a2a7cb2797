/** A store whose calls are counted, timed and traced, for whoever has asked for telemetry. */
import type { Env, LabelsOf, Telemetry } from "../env/index.js";
import type {
  AcquireOutcome,
  CallOptions,
  Key,
  LeaseStore,
  LeaseView,
  RenewOutcome,
} from "./port.js";

type Calls = LabelsOf<"leasehold.store.duration">;

/** Times a call to a store under a span; a batch in which a request failed has failed. */
export function timed<T>(
  { clock, telemetry }: Env & { telemetry: Telemetry },
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

export interface MeasureOptions {
  /**
   * The holders are elsewhere, and their losses and how long they held are told by what they ask for.
   * Default false: they are told by the leases themselves.
   */
  readonly serves?: boolean;
  /** Of resources of other namespaces nothing is told to those who read metrics. Default: of none. */
  readonly prefixesOf?: string;
}

/** The store itself where nobody measures. */
export function measured(store: LeaseStore, env: Env, options: MeasureOptions = {}): LeaseStore {
  const { telemetry } = env;
  if (!telemetry) return store;
  const { serves = false, prefixesOf } = options;
  const known = { ...env, telemetry };

  const blame = (what: "contended" | "endangered", { namespace, resource }: Key) => {
    telemetry.blame(what, prefixesOf === undefined || prefixesOf === namespace ? resource : "");
  };
  const tellAcquire = (outcome: AcquireOutcome, key: Key) => {
    telemetry.count("leasehold.lease.acquire.attempts", { outcome: outcome.status });
    if (outcome.status === "held") blame("contended", key);
    if (outcome.status === "acquired" && outcome.replaced) tellReplaced(outcome.replaced);
  };
  const tellReplaced = (replaced: LeaseView) => {
    const { state, grantedAt, expiresAt } = replaced;
    if (state === "expired") telemetry.count("leasehold.lease.reclaimed", {});
    if (!serves || state === "live" || grantedAt === null || expiresAt === null) return;
    // Both by the store's clock.
    const heldMs = Math.max(0, Date.parse(expiresAt) - Date.parse(grantedAt));
    telemetry.measure("leasehold.lease.hold.duration", { ended: state }, heldMs);
  };
  const tellRenew = (outcome: RenewOutcome, key: Key) => {
    telemetry.count("leasehold.lease.renew.attempts", { outcome: outcome.status });
    if (outcome.status === "renewed") return;
    blame("endangered", key);
    if (!serves || outcome.status !== "lost") return;
    telemetry.count("leasehold.lease.losses", { reason: outcome.reason });
  };

  return {
    capabilities: store.capabilities,
    async acquire(requests, given) {
      const told: CallOptions = { ...given, tellReplaced: true };
      const call = () => store.acquire(requests, told);
      const outcomes = await timed(known, "leases", "acquire", requests.length, call);
      for (const [index, key] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome) tellAcquire(outcome, key);
      }
      return outcomes;
    },
    async renew(requests, given) {
      const call = () => store.renew(requests, given);
      const outcomes = await timed(known, "leases", "renew", requests.length, call);
      for (const [index, key] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome) tellRenew(outcome, key);
      }
      return outcomes;
    },
    async release(requests, given) {
      const call = () => store.release(requests, given);
      const outcomes = await timed(known, "leases", "release", requests.length, call);
      for (const { status: outcome } of outcomes) {
        telemetry.count("leasehold.lease.release.attempts", { outcome });
      }
      return outcomes;
    },
    async revoke(requests, given) {
      const call = () => store.revoke(requests, given);
      const outcomes = await timed(known, "leases", "revoke", requests.length, call);
      for (const { status: outcome } of outcomes) {
        telemetry.count("leasehold.lease.revokes", { outcome });
      }
      return outcomes;
    },
    get: (keys) => store.get(keys),
    list: (query) => store.list(query),
    watch: (namespace, watching) => store.watch(namespace, watching),
    collect: (olderThanMs) => store.collect(olderThanMs),
    close: () => store.close(),
  };
}
