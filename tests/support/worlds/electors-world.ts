/** Candidates for the leadership of one cluster, in memory under a manual clock. */
import {
  type ElectorOptions,
  electorOver,
  type LeaderWork,
} from "../../../packages/leasehold/src/election/elector.js";
import { LeaseClient } from "../../../packages/leasehold/src/lease/index.js";
import { manualEnv } from "../../../packages/leasehold/src/testing/index.js";
import { faultyStore } from "../faults/faulty-store.js";

export const ELECTOR_TTL_MS = 3_000;

export function electorsWorld(options: Parameters<typeof manualEnv>[0] = {}) {
  const env = manualEnv(options);
  const store = faultyStore(env);
  const node = (holder: string, options: ElectorOptions = {}) => {
    const leases = new LeaseClient(store, { env, holder }, { close: undefined });
    const elector = electorOver(leases, "cluster", { ttlMs: ELECTOR_TTL_MS, ...options });
    const stop = new AbortController();
    const lead = (work: LeaderWork = untilAborted) => elector.lead(work, { signal: stop.signal });
    return { leases, elector, stop, lead };
  };
  return { clock: env.clock, store, node };
}

export type ElectorNode = ReturnType<ReturnType<typeof electorsWorld>["node"]>;

export const untilAborted: LeaderWork = (term) =>
  new Promise((resolve) => term.signal.addEventListener("abort", () => resolve()));
