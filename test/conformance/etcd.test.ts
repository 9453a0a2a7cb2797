/** etcd against the suite that holds every lease store to the same rules. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../src/env/index.js";
import { etcd } from "../../src/stores/etcd/index.js";
import { exerciseLeaseStore } from "../../src/testing/index.js";
import { describeEtcd, startEtcd } from "../support/etcd-engine.js";

const vitest = { afterAll, beforeAll, describe: describeEtcd, expect, it };

exerciseLeaseStore({
  name: "etcd",
  vitest,
  async open() {
    const engine = await startEtcd();
    const source = etcd({ url: engine.url });
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
});
