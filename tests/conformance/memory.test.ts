/** The memory store against the suite that holds every lease store to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import {
  exerciseLeaseStore,
  type LeaseHarness,
  manualEnv,
} from "../../packages/leasehold/src/testing/index.js";
import { runsIn } from "../support/suite-tier.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

const HARNESSES: readonly (LeaseHarness & { readonly tier: "contract" | "engines" })[] = [
  {
    name: "memory",
    tier: "contract",
    vitest,
    async open() {
      const env = manualEnv({ seed: 11 });
      const source = memory();
      let stores = await source.open(env);
      return {
        store: stores.leases,
        advance: (ms) => env.clock.advance(ms),
        async restart() {
          await stores.close();
          stores = await source.open(env);
          return stores.leases;
        },
        close: () => stores.close(),
      };
    },
  },
  {
    name: "memory in real time",
    tier: "engines",
    vitest,
    async open() {
      const stores = await memory({ name: "conformance" }).open(systemEnv);
      return { store: stores.leases, close: () => stores.close() };
    },
  },
];

for (const { tier, ...harness } of HARNESSES) if (runsIn(tier)) exerciseLeaseStore(harness);
