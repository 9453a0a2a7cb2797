/** The live workers, derived from their leases. */
import type { LeaseView } from "./port.js";

export interface LiveWorker {
  readonly holder: string;
  /** The latest renewal or grant among its leases; null where the store has no clock. */
  readonly lastHeartbeatAt: string | null;
  /** Resources of its live leases, in the order of the leases. */
  readonly holds: readonly string[];
}

/**
 * The holders of live leases, each with its last sign of life and what it holds, ordered by name.
 * Ended leases are skipped.
 */
export function liveWorkers(leases: readonly LeaseView[]): LiveWorker[] {
  const workers = new Map<string, { lastHeartbeatAt: string | null; holds: string[] }>();
  for (const { holder, resource, state, grantedAt, renewedAt } of leases) {
    if (state !== "live") continue;
    const worker = workers.get(holder) ?? { lastHeartbeatAt: null, holds: [] };
    workers.set(holder, worker);
    worker.holds.push(resource);
    const seenAt = renewedAt ?? grantedAt;
    if (seenAt !== null && seenAt > (worker.lastHeartbeatAt ?? "")) worker.lastHeartbeatAt = seenAt;
  }
  return [...workers]
    .map(([holder, worker]) => ({ holder, ...worker }))
    .sort((a, b) => (a.holder < b.holder ? -1 : 1));
}
