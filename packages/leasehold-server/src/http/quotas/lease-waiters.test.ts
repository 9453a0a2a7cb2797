import { LONGEST_WAITER_MS, newLeaseId } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { LeaseWaiters, MOST_LEASE_WAITERS } from "./lease-waiters.js";

const LIMIT = { code: "LIMIT_REACHED" };

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

function openWaiters() {
  const { clock } = manualEnv();
  const waiters = new LeaseWaiters(clock);
  const ask = (leaseId: string, queueMs = 10_000, resource = "r") => [
    { resource, leaseId, queueMs },
  ];
  const wait = (...asked: Parameters<typeof ask>) => {
    const requests = ask(...asked);
    waiters.check("n", requests);
    for (const request of requests) waiters.note("n", request, true);
  };
  for (let n = 1; n < MOST_LEASE_WAITERS; n += 1) wait(`${n}`, 60_000);
  return { clock, waiters, ask, wait };
}

it("refuses requests that would wait for leases beyond the limit of their tenant, until others have left", async () => {
  const { clock, waiters, ask, wait } = openWaiters();
  expect(() => waiters.check("n", [...ask("a"), ...ask("b")])).toThrow(
    expect.objectContaining(LIMIT),
  );
  wait("a");
  // It waits already.
  wait("a");
  expect(() => wait("b")).toThrow(expect.objectContaining(LIMIT));
  expect(() => waiters.check("n", ask("b", 0))).not.toThrow();
  expect(() => waiters.check("other", ask("b"))).not.toThrow();
  // One is granted or gives up.
  for (const request of ask("7")) waiters.note("n", request, false);
  wait("b");
  await clock.advance(9_999);
  expect(() => wait("c")).toThrow(expect.objectContaining(LIMIT));
  await clock.advance(1_000);
  wait("c");
  wait("d");
  expect(() => wait("e")).toThrow(expect.objectContaining(LIMIT));
});

it("counts one lease id for each resource that it waits for, and keeps none for longer than a store", async () => {
  const { clock, waiters, wait } = openWaiters();
  wait("a", 10 * LONGEST_WAITER_MS, "s");
  expect(() => wait("a", 1, "t")).toThrow(expect.objectContaining(LIMIT));
  await clock.advance(LONGEST_WAITER_MS);
  waiters.forget();
  wait("a", 1, "t");
});
