/** Consul against the suite that holds every lease store to the same rules. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { consul } from "../../packages/leasehold/src/stores/consul/index.js";
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { openRestartable } from "../support/conformance.js";
import { describeConsul, startConsul } from "../support/consul-engine.js";

const vitest = { afterAll, beforeAll, describe: describeConsul, expect, it };

exerciseLeaseStore({
  name: "Consul",
  vitest,
  async open() {
    const engine = await startConsul();
    const source = consul({ url: `${engine.url}/locks?sessionTtlMs=60000` });
    return openRestartable(engine, () => source.open(systemEnv, 30_000));
  },
});
