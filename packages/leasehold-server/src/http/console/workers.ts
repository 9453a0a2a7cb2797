/** The live workers of a tenant: holders of live leases, and callers that claim tasks here. */
import { type LiveWorker, liveWorkers } from "leasehold/internal";
import type { Workers } from "leasehold/internal/wire";
import type { Services } from "../services.js";
import type { Claimer } from "./recent-calls.js";

/** Live leases that are read, of resources and of tasks each. */
const MAX_LIVE = 1_000;

/** Rejects if a store is unavailable. */
export async function workersOf(
  { leases, tasks }: Pick<Services, "leases" | "tasks">,
  namespace: string,
): Promise<{ readonly workers: LiveWorker[]; readonly complete: boolean }> {
  const live = { namespace, states: ["live"] as const, limit: MAX_LIVE };
  // One after the other: a tenant has few such reads in the store at once.
  const ofResources = await leases.list(live);
  const ofTasks = await tasks.leases(live);
  return {
    workers: liveWorkers([...ofResources.items, ...ofTasks.items]),
    complete: ofResources.nextCursor === null && ofTasks.nextCursor === null,
  };
}

/**
 * Adds workers that claim tasks and hold none, and the latest claim of each worker. Sorted by name.
 * @param claimers latest last
 */
export function withClaims(
  workers: readonly LiveWorker[],
  claimers: readonly Claimer[],
): Workers["items"] {
  const claims = new Map(claimers.map(({ holder, versions: _, ...claim }) => [holder, claim]));
  const holding = new Set(workers.map(({ holder }) => holder));
  const idle = [...claims.keys()]
    .filter((holder) => !holding.has(holder))
    .map((holder): LiveWorker => ({ holder, lastHeartbeatAt: null, holds: [] }));
  return [...workers, ...idle]
    .sort((a, b) => (a.holder < b.holder ? -1 : 1))
    .map(({ holder, lastHeartbeatAt, holds }) => {
      const claim = claims.get(holder);
      return {
        holder,
        lastHeartbeatAt,
        holds: [...holds],
        claims: claim
          ? { ...claim, queues: [...claim.queues], kinds: claim.kinds && [...claim.kinds] }
          : null,
      };
    });
}
