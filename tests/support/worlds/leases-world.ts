/** Two clients of one store, in memory under a manual clock. */
import { LeaseClient } from "../../../packages/leasehold/src/lease/client.js";
import { manualEnv } from "../../../packages/leasehold/src/testing/index.js";
import { faultyStore } from "../faults/faulty-store.js";

export const LEASE_TTL_MS = 3_000;

export function leasesWorld() {
  const env = manualEnv();
  const store = faultyStore(env);
  const client = (holder: string) =>
    new LeaseClient(
      store,
      { env, holder, defaults: { ttlMs: LEASE_TTL_MS } },
      { close: undefined },
    );
  return { env, clock: env.clock, store, client, a: client("a"), b: client("b") };
}
