/** Who is at work for a tenant: by the live leases of the store, and by who asks for tasks here. */
import { type LiveWorker, liveWorkers } from "leasehold/internal";
import type { Workers } from "leasehold/internal/wire";
import type { Services } from "../services.js";
import type { Claimer } from "./recent-calls.js";

/** So many live leases are read, of resources and of tasks each. */
const MOST_LIVE = 1_000;

/** Rejects as the stores do. */
export async function workersOf(
  { leases, tasks }: Pick<Services, "leases" | "tasks">,
  namespace: string,
): Promise<{ readonly workers: LiveWorker[]; readonly complete: boolean }> {
  const live = { namespace, states: ["live"] as const, limit: MOST_LIVE };
  const [ofResources, ofTasks] = await Promise.all([leases.list(live), tasks.leases(live)]);
  return {
    workers: liveWorkers([...ofResources.items, ...ofTasks.items]),
    complete: ofResources.nextCursor === null && ofTasks.nextCursor === null,
  };
}

/**
 * Those that hold something, and those that ask for tasks and hold nothing now; by name, each with its
 * latest claim.
 * @param claimers the latest last
 */
export function withClaims(
  workers: readonly LiveWorker[],
  claimers: readonly Claimer[],
): Workers["items"] {
  const claims = new Map(claimers.map(({ holder, ...claim }) => [holder, claim]));
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
