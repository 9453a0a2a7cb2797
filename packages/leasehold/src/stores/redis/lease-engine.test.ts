/** The suite on Redis where the rules decide everything, on a load and a save, and others act in between. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  describeRedis,
  type RedisServer,
  startRedis,
} from "../../../../../tests/support/engines/redis-engine.js";
import { endAll } from "../../../../../tests/support/processes/processes.js";
import { storeOverEngine } from "../../../../../tests/support/suites/store-over-engine.js";
import { systemEnv } from "../../env/index.js";
import { exerciseLeaseStore } from "../../testing/index.js";
import { redis } from "./index.js";
import { leaseEngine } from "./lease-engine.js";
import type { RedisLeaseStore } from "./store.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

describeRedis("Redis by the rules", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  beforeEach(() => server.ask("flushall"));
  afterAll(async () => {
    await server.remove();
    await endAll();
  });

  exerciseLeaseStore({
    name: "alone",
    vitest,
    async open() {
      const { leases, close } = await redis({ url: server.url }).open(systemEnv);
      const { calls, namespaces } = leases as RedisLeaseStore;
      const engineOf = (assertOpen: () => void) => {
        const engine = leaseEngine(calls, "general", assertOpen);
        const load: typeof engine.load = (keys, ...more) => {
          for (const { namespace } of keys) namespaces.add(namespace);
          return engine.load(keys, ...more);
        };
        return { ...engine, load };
      };
      const { store, interleave } = storeOverEngine(leases, engineOf, { timeoutMs: 10_000 });
      return { store, interleave, close };
    },
  });
});
