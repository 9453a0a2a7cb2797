/** Redis against the suite that holds every lease store to the same rules. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { redis } from "../../packages/leasehold/src/stores/redis/index.js";
import {
  exerciseLeaseStore,
  type LeaseHarness,
} from "../../packages/leasehold/src/testing/index.js";
import { openRestartable } from "../support/conformance.js";
import { describeRedis, describeValkey, startRedis, VALKEY } from "../support/redis-engine.js";

const vitest = { afterAll, beforeAll, expect, it };

const harness = (name: string, describe: typeof describeRedis, program?: string): LeaseHarness => ({
  name,
  vitest: { ...vitest, describe },
  async open() {
    const settings = { appendonly: "yes", appendfsync: "always" };
    const engine = await startRedis(settings, { ...(program && { program }) });
    const source = redis({ url: engine.url });
    return openRestartable(engine, () => source.open(systemEnv));
  },
});

exerciseLeaseStore(harness("Redis", describeRedis));
exerciseLeaseStore(harness("Valkey", describeValkey, VALKEY));
