/** The memory store against the suite that holds every lease store to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newLeaseId, systemEnv, taskIds } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { exerciseLeaseStore, manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { newTaskOf } from "../../packages/leasehold/src/testing/task-suite/new-task.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { runsIn } from "../support/suites/suite-tier.js";

if (runsIn("contract")) {
  exerciseLeaseStore({
    name: "memory",
    vitest: { afterAll, beforeAll, describe, expect, it },
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
  });
}

const TTL_MS = 300;

// The suites run in virtual time. These show that the clock of the machine is used, too.
if (runsIn("engines")) {
  describe("memory in real time", () => {
    it("a lease expires, and the waiter gets it with a greater token", async () => {
      await using first = await connect("memory:in-real-time");
      await using second = await connect("memory:in-real-time");
      const lease = await first.acquire("r", { ttlMs: TTL_MS, autoRenew: false });
      const lost = new Promise((resolve) => void lease.onLost(resolve));
      const next = await second.acquire("r");
      expect(await lost).toBe("expired");
      expect(next.token).toBeGreaterThan(lease.token);
      await next.release();
    });

    it("a task whose holder died is claimed again, with a greater token", async () => {
      const { tasks, close } = await memory().open(systemEnv);
      const id = taskIds(systemEnv.clock, systemEnv.random)();
      await tasks.enqueue([newTaskOf({ namespace: "n", id })]);
      const claim = async () => {
        const outcome = await tasks.claim({
          namespace: "n",
          claimId: newLeaseId(systemEnv.random),
          holder: "h",
          queues: ["queue"],
          kinds: null,
          limit: 1,
          ttlMs: TTL_MS,
        });
        return outcome.status === "claimed" ? outcome.tasks[0] : undefined;
      };
      const first = await claim();
      await until(expect, "its lease expires", async () => (await tasks.reap()).length > 0);
      const again = await claim();
      expect([first?.id, again?.id]).toEqual([id, id]);
      expect(again?.token).toBeGreaterThan(first?.token ?? Number.NaN);
      await close();
    });
  });
}
