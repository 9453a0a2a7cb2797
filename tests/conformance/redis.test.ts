/** Redis against the suite that holds every lease store to the same rules. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { redis } from "../../packages/leasehold/src/stores/redis/index.js";
import {
  exerciseLeaseStore,
  type LeaseHarness,
} from "../../packages/leasehold/src/testing/index.js";
import { openRestartable } from "../support/conformance.js";
import { describeRedis, startRedis } from "../support/redis-engine.js";

const vitest = { afterAll, beforeAll, describe: describeRedis, expect, it };

const server: LeaseHarness = {
  name: "Redis",
  vitest,
  async open() {
    const engine = await startRedis({ appendonly: "yes", appendfsync: "always" });
    const source = redis({ url: engine.url });
    return openRestartable(engine, () => source.open(systemEnv));
  },
};

exerciseLeaseStore(server);
