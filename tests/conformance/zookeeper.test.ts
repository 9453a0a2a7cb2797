/** ZooKeeper against the suite that holds every lease store to the same rules. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { zookeeper } from "../../packages/leasehold/src/stores/zookeeper/index.js";
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { openRestartable } from "../support/conformance.js";
import { describeZooKeeper, startZooKeeper } from "../support/zookeeper-engine.js";

const vitest = { afterAll, beforeAll, describe: describeZooKeeper, expect, it };

exerciseLeaseStore({
  name: "ZooKeeper",
  vitest,
  async open() {
    const engine = await startZooKeeper();
    const source = zookeeper({ url: `${engine.url}/locks?sessionTimeoutMs=60000` });
    return openRestartable(engine, () => source.open(systemEnv, 30_000));
  },
});
