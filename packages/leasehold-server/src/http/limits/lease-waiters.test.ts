import { newLeaseId } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { MOST_LEASE_WAITERS } from "./tenants.js";

it("answers 429 to an acquire that would wait behind so many", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  const tenants = openTenants(stores, env, {});
  onTestFinished(async () => {
    await tenants.app.close();
    await stores.close();
  });
  const { text } = await tenants.newKey("a", "admin");
  const newId = () => toWireLeaseId("r", newLeaseId(env.random));
  const acquire = async (leaseIds: readonly string[], queueMs?: number) => {
    const body = leaseIds.map((leaseId) => ({
      leaseId,
      holder: "h",
      ttlMs: 60_000,
      ...(queueMs && { queueMs }),
    }));
    const answer = await tenants.ask(text, { method: "POST", path: "/v1/leases/acquire", body });
    await env.clock.advance(2_000);
    return { status: answer.status, body: JSON.parse(answer.text) };
  };
  expect((await acquire([newId()])).body).toMatchObject([{ status: "acquired" }]);
  let waiting: string[] = [];
  for (let count = 0; count < MOST_LEASE_WAITERS; count += 500) {
    waiting = Array.from({ length: 500 }, newId);
    expect((await acquire(waiting, 600_000)).status).toBe(200);
  }
  expect(await acquire([newId()], 600_000)).toMatchObject({
    status: 429,
    body: { code: "LIMIT_REACHED" },
  });
  expect((await acquire([newId()])).body).toMatchObject([{ status: "held" }]);
  expect((await acquire(waiting.slice(0, 1), 600_000)).body).toMatchObject([{ ahead: 9_500 }]);
  const path = "/v1/leases/release";
  const body = waiting.slice(0, 1).map((leaseId) => ({ leaseId }));
  expect((await tenants.ask(text, { method: "POST", path, body })).status).toBe(200);
  expect((await acquire([newId()], 600_000)).body).toMatchObject([{ ahead: 9_999 }]);
});
