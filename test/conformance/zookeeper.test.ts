/** ZooKeeper against the suite that holds every lease store to the same rules. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../src/env/index.js";
import { zookeeper } from "../../src/stores/zookeeper/index.js";
import { exerciseLeaseStore } from "../../src/testing/index.js";
import { describeZooKeeper, startZooKeeper } from "../support/zookeeper-engine.js";

const vitest = { afterAll, beforeAll, describe: describeZooKeeper, expect, it };

exerciseLeaseStore({
  name: "ZooKeeper",
  vitest,
  async open() {
    const engine = await startZooKeeper();
    const source = zookeeper({ url: `${engine.url}/locks?sessionTimeoutMs=60000` });
    let stores = await source.open(systemEnv, 30_000);
    return {
      store: stores.leases,
      async restart() {
        const before = stores;
        await engine.kill9();
        await engine.start();
        stores = await source.open(systemEnv, 30_000);
        await before.close();
        return stores.leases;
      },
      async close() {
        await stores.close();
        await engine.remove();
      },
    };
  },
});
