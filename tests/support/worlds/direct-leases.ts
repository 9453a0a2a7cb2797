/** Leases of a store under a manual clock, acquired and released without a client that waits or renews. */
import { type Env, newLeaseId } from "../../../packages/leasehold/src/env/index.js";
import type { LeaseStore } from "../../../packages/leasehold/src/lease/index.js";

export function directLeases(store: LeaseStore, { random }: Pick<Env, "random">, tenant: string) {
  return async function acquire(resource: string, { holder = "holder", ttlMs = 600_000 } = {}) {
    const grant = { namespace: tenant, resource, leaseId: newLeaseId(random) };
    const [outcome] = await store.acquire([{ ...grant, holder, ttlMs }]);
    if (outcome?.status !== "acquired") throw new Error(`${resource}: ${outcome?.status}`);
    return {
      token: outcome.token,
      release: () => store.release([grant]),
      renew: () => store.renew([{ ...grant, ttlMs }]),
    };
  };
}
