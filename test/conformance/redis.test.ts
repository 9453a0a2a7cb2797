/** Redis against the suite that holds every lease store to the same rules. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../src/env/index.js";
import { redis } from "../../src/stores/redis/index.js";
import { exerciseLeaseStore, type LeaseHarness } from "../../src/testing/index.js";
import { describeRedis, startRedis } from "../support/redis-engine.js";

const vitest = { afterAll, beforeAll, describe: describeRedis, expect, it };

const server: LeaseHarness = {
  name: "Redis",
  vitest,
  async open() {
    const engine = await startRedis({ appendonly: "yes", appendfsync: "always" });
    const source = redis({ url: engine.url });
    let stores = await source.open(systemEnv);
    return {
      store: stores.leases,
      async restart() {
        const before = stores;
        await engine.kill9();
        await engine.start();
        stores = await source.open(systemEnv);
        await before.close();
        return stores.leases;
      },
      async close() {
        await stores.close();
        await engine.remove();
      },
    };
  },
};

exerciseLeaseStore(server);
