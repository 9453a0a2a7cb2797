/**
 * Logs what a client's store answers, with the events and fields of the server's log (docs/logs.md). So a
 * program that uses a database directly leaves the same trace.
 */
import { type Env, grantIdOf, Recent, silentLogger } from "../env/index.js";
import type {
  AcquireOutcome,
  AcquireRequest,
  Grant,
  LeaseStore,
  RenewOutcome,
} from "../lease/index.js";
import { overriding } from "./stopwatch.js";

/** The most grants whose tokens are remembered. */
const GRANTS = 10_000;

/** The same store, whose leases are logged. Without a logger, the store itself. */
export function loggedLeases(store: LeaseStore, { logger, clock }: Env): LeaseStore {
  if (logger === silentLogger) return store;
  const tokens = new Recent<number>(GRANTS);

  const since = (sentMs: number) => Math.round((clock.monotonic() - sentMs) * 100) / 100;
  const onAcquire = (request: AcquireRequest, outcome: AcquireOutcome, durationMs: number) => {
    const { resource, holder: ownerId } = request;
    const common = { operation: "acquire", resource, ownerId };
    if (outcome.status === "acquired") {
      const grantId = grantIdOf(request.leaseId);
      const { token: fencingToken, ttlMs } = outcome;
      tokens.set(grantId, fencingToken);
      const grant = { grantId, fencingToken, ttlSeconds: ttlMs / 1_000 };
      logger.info({ event: "lock_acquired", ...common, ...grant, durationMs }, "lock acquired");
    } else if (outcome.status === "held") {
      const { holder: heldBy, grantId } = outcome;
      const fencingToken = (grantId === null ? undefined : tokens.get(grantId)) ?? null;
      const current = { heldBy, grantId, fencingToken };
      logger.debug(
        { event: "lock_contended", ...common, ...current, durationMs },
        "lock contended",
      );
    }
  };
  const onRenew = ({ resource, leaseId }: Grant, outcome: RenewOutcome, durationMs: number) => {
    const grantId = grantIdOf(leaseId);
    const common = { operation: "renew", resource, grantId };
    if (outcome.status === "renewed") {
      const { token: fencingToken, ttlMs } = outcome;
      const grant = { fencingToken, ttlSeconds: ttlMs / 1_000 };
      logger.debug({ event: "lock_renewed", ...common, ...grant, durationMs }, "lock renewed");
    } else if (outcome.status === "lost") {
      const lost = { fencingToken: tokens.get(grantId) ?? null, reason: outcome.reason };
      logger.info(
        { event: "lock_renewal_failed", ...common, ...lost, durationMs },
        "lock renewal failed",
      );
    }
  };

  return overriding(store, {
    async acquire(requests, options) {
      const sentMs = clock.monotonic();
      const outcomes = await store.acquire(requests, options);
      for (const [index, request] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome) onAcquire(request, outcome, since(sentMs));
      }
      return outcomes;
    },
    async renew(requests, options) {
      const sentMs = clock.monotonic();
      const outcomes = await store.renew(requests, options);
      for (const [index, request] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome) onRenew(request, outcome, since(sentMs));
      }
      return outcomes;
    },
  });
}
