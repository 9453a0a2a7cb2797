/** etcd against the suite that holds every lease store to the same rules. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { etcd } from "../../packages/leasehold/src/stores/etcd/index.js";
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { openRestartable } from "../support/conformance.js";
import { describeEtcd, startEtcd } from "../support/etcd-engine.js";

const vitest = { afterAll, beforeAll, describe: describeEtcd, expect, it };

for (const transport of ["grpc", "json"]) {
  exerciseLeaseStore({
    name: `etcd, ${transport}`,
    vitest,
    async open() {
      const engine = await startEtcd();
      const source = etcd({ url: `${engine.url}?transport=${transport}` });
      return openRestartable(engine, () => source.open(systemEnv));
    },
  });
}
