import { LONGEST_WAITER_MS, newLeaseId } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { manualClock, manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { LeaseWaiters, MOST_LEASE_WAITERS } from "./lease-waiters.js";

const LIMIT = expect.objectContaining({ code: "LIMIT_REACHED" });

it("refuses requests that would wait beyond the limit of their tenant, until others have left", async () => {
  const clock = manualClock();
  const waiters = new LeaseWaiters(clock, 3);
  const ask = (...names: string[]) =>
    names.map((leaseId) => ({ resource: "r", leaseId, queueMs: 10_000 }));
  const wait = (...names: string[]) => {
    waiters.check("n", ask(...names));
    for (const request of ask(...names)) waiters.note("n", request, true);
  };
  expect(() => wait("a", "b", "c", "d")).toThrow(LIMIT);
  wait("a", "b", "c");
  wait("a", "b", "c");
  expect(() => wait("d")).toThrow(LIMIT);
  expect(() => waiters.check("n", [{ resource: "r", leaseId: "d", queueMs: 0 }])).not.toThrow();
  expect(() => waiters.check("other", ask("d", "e", "f"))).not.toThrow();
  // One is granted or gives up.
  for (const request of ask("b")) waiters.note("n", request, false);
  wait("d");
  expect(() => wait("b")).toThrow(LIMIT);
  await clock.advance(9_999);
  wait("a");
  await clock.advance(1);
  expect(() => wait("x", "y")).toThrow(LIMIT);
  await clock.advance(1_000);
  wait("x", "y");
  expect(() => wait("z")).toThrow(LIMIT);
});

it("counts one lease id for each resource that it waits for, and keeps none for longer than a store", async () => {
  const clock = manualClock();
  const waiters = new LeaseWaiters(clock, 2);
  const ask = (resource: string) => [{ resource, leaseId: "a", queueMs: 10 * LONGEST_WAITER_MS }];
  const wait = (resource: string) => {
    waiters.check("n", ask(resource));
    for (const request of ask(resource)) waiters.note("n", request, true);
  };
  wait("r");
  wait("s");
  expect(() => wait("t")).toThrow(LIMIT);
  for (const request of ask("r")) waiters.note("n", request, false);
  wait("t");
  expect(() => wait("r")).toThrow(LIMIT);
  await clock.advance(LONGEST_WAITER_MS);
  wait("r");
});

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
