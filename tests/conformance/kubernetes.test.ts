/** Kubernetes' Lease objects against the suite that holds every lease store to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { kubernetes } from "../../packages/leasehold/src/stores/kubernetes/index.js";
import { exerciseLeaseStore, manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { startKubernetes } from "../support/kubernetes-engine.js";

const engine = await startKubernetes();

exerciseLeaseStore({
  name: engine.name,
  vitest: { afterAll, beforeAll, describe, expect, it },
  async open() {
    // The store itself decides what has expired, so moving its clock is enough.
    const env = manualEnv({ seed: 11 });
    const stores = await kubernetes({ url: engine.url }).open(env);
    return {
      store: stores.leases,
      advance: (ms) => env.clock.advance(ms),
      async close() {
        await stores.close();
        await engine.close();
      },
    };
  },
});
