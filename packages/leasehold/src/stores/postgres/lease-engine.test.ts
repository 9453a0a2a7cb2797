/** The suite on PostgreSQL where the rules decide: beside the lean statements, and with no other statement than a load and a save. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describePostgres, freshDatabase } from "../../../../../tests/support/engines/postgres.js";
import { storeOverEngine } from "../../../../../tests/support/suites/store-over-engine.js";
import { systemEnv } from "../../env/index.js";
import { exerciseLeaseStore, manualClock } from "../../testing/index.js";
import type { Sql } from "./connection.js";
import { openPostgres } from "./index.js";
import { leaseEngine, operationsByRules } from "./lease-engine.js";
import { PostgresLeaseStore } from "./store.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

async function open() {
  const fresh = await freshDatabase();
  const { connections, close } = await openPostgres({ url: fresh.url }, systemEnv);
  return {
    connections,
    async close() {
      await close();
      await fresh.drop();
    },
  };
}

describePostgres("PostgreSQL by the rules", () => {
  it("refuses a request whose time is over when its waiter has joined, as nothing is left to save", async () => {
    const { connections, close } = await open();
    const { general } = connections.backend;
    const clock = manualClock();
    const late: Sql = Object.assign(Object.create(general) as Sql, {
      async query(...asked: Parameters<Sql["query"]>) {
        const rows = await general.query(...asked);
        await clock.advance(10_000);
        return rows;
      },
    });
    const backend = { ...connections.backend, general: late };
    const env = { ...connections.env, clock };
    const { acquire } = operationsByRules({ ...connections, backend, env }, () => {});
    const request = { namespace: "n", resource: "r", holder: "h", ttlMs: 60_000 };
    const leases = new PostgresLeaseStore(connections);
    await leases.acquire([{ ...request, leaseId: "a".repeat(48) }]);
    const waiter = { ...request, leaseId: "b".repeat(48), queueMs: 60_000 };
    expect(await acquire([waiter], { timeoutMs: 5_000 })).toMatchObject([
      { status: "held", ahead: 0 },
    ]);
    const [held] = await leases.acquire([{ ...waiter, leaseId: "c".repeat(48) }]);
    expect(held).toMatchObject({ status: "held", ahead: 1 });
    await close();
  });

  exerciseLeaseStore({
    name: "beside the lean statements",
    vitest,
    async open() {
      const { connections, close } = await open();
      return { store: new PostgresLeaseStore(connections), close };
    },
  });

  exerciseLeaseStore({
    name: "alone",
    vitest,
    async open() {
      const { connections, close } = await open();
      const leases = new PostgresLeaseStore(connections);
      const engineOf = (assertOpen: () => void) =>
        leaseEngine(connections.backend.general, assertOpen);
      const { store, interleave } = storeOverEngine(leases, engineOf, { timeoutMs: 10_000 });
      return { store, interleave, close };
    },
  });
});
