/** Limits of the port's routes, for each request of a batch. */
import { KEEP_ENDED_MS, newLeaseId, systemEnv } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { instead } from "../../../../../tests/support/worlds/instead.js";

async function open() {
  const env = manualEnv();
  const stores = await memory().open(env);
  const tenants = openTenants(stores, env, { shortestTtlMs: 1_000, longestTtlMs: 60_000 });
  onTestFinished(async () => {
    await tenants.app.close();
    await stores.close();
  });
  const { text } = await tenants.newKey("a", "admin");
  const send = async (path: string, body: unknown, key = text) => {
    const answer = await tenants.ask(key, { method: "POST", path, body });
    return { status: answer.status, body: JSON.parse(answer.text) };
  };
  const grant = (resource: string) => toWireLeaseId(resource, newLeaseId(env.random));
  return { ...tenants, env, stores, send, grant };
}

test.each(["acquire", "renew"])(
  "each TTL of a batch to %s must be in the range",
  async (operation) => {
    const { send, grant } = await open();
    for (const ttlMs of [999, 60_001]) {
      const requests = [5_000, ttlMs].map((each, index) => ({
        leaseId: grant(`r${index}`),
        ttlMs: each,
        ...(operation === "acquire" && { holder: "h" }),
      }));
      const { status, body } = await send(`/v1/leases/${operation}`, requests);
      expect([status, body.errors?.[0]?.path]).toEqual([422, "1.ttlMs"]);
    }
  },
);

test("a key collects no records that the hourly collection would keep", async () => {
  const { send } = await open();
  const collect = (olderThanMs: number) =>
    send("/v1/leases/collect", { olderThanMs, reason: "test" });
  expect((await collect(KEEP_ENDED_MS - 1)).status).toBe(422);
  expect(await collect(KEEP_ENDED_MS)).toEqual({ status: 200, body: { collected: 0 } });
});

test("a key that is rotated without an overlap is refused at once", async () => {
  const { ask, newKey, send } = await open();
  const { key, text } = await newKey("a", "viewer");
  const read = { method: "GET", path: "/v1/whoami" };
  expect((await ask(text, read)).status).toBe(200);
  const rotated = await send(`/v1/keys/${key.id}/rotate`, { overlapMs: 0, reason: "test" });
  expect(rotated.status, JSON.stringify(rotated.body)).toBe(201);
  expect((await ask(text, read)).status).toBe(401);
  expect((await ask(rotated.body.key, read)).status).toBe(200);
});

test("a request that names one resource many times is served in several calls, in its order", async () => {
  const stores = await memory().open(systemEnv);
  const sizes: number[] = [];
  const leases = instead(stores.leases, {
    acquire(...[requests, options]: Parameters<typeof stores.leases.acquire>) {
      sizes.push(requests.length);
      return stores.leases.acquire(requests, options);
    },
  });
  const { ask } = await openTestApp({ ...stores, leases });
  const names = [...Array(20).fill("r"), "other"] as string[];
  const requests = names.map((resource) => {
    const leaseId = toWireLeaseId(resource, newLeaseId(systemEnv.random));
    return { leaseId, holder: "h", ttlMs: 5_000 };
  });
  const { body } = await ask("POST", "/v1/leases/acquire", requests);
  const statuses = body.map(({ status }: { status: string }) => status);
  expect(statuses).toEqual(["acquired", ...Array(19).fill("held"), "acquired"]);
  expect(sizes).toEqual([9, 8, 4]);
});

test("a tenant renews and releases while the store is busy with leases that it acquires", async () => {
  const { stores, send, grant } = await open();
  const own = grant("own");
  const acquireBody = (leaseId: string) => ({ leaseId, holder: "h", ttlMs: 5_000 });
  expect((await send("/v1/leases/acquire", [acquireBody(own)])).status).toBe(200);
  let goOn = () => {};
  const gate = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const { acquire } = stores.leases;
  let isBusy = false;
  stores.leases.acquire = async (...call) => {
    isBusy = true;
    await gate;
    return acquire.apply(stores.leases, call);
  };
  const many = Array.from({ length: 300 }, (_, n) => acquireBody(grant(`r${n}`)));
  const busy = send("/v1/leases/acquire", many);
  await vi.waitUntil(() => isBusy);
  const renewed = await send("/v1/leases/renew", [{ leaseId: own, ttlMs: 5_000 }]);
  expect(renewed.body).toMatchObject([{ status: "renewed" }]);
  const released = await send("/v1/leases/release", [{ leaseId: own }]);
  expect(released.body).toMatchObject([{ status: "released" }]);
  goOn();
  expect((await busy).body).toHaveLength(300);
});

test("leases and tasks have each the TTLs of their own store, within those of the server", async () => {
  const stores = await memory().open(systemEnv);
  const { leases, tasks } = stores;
  const withTtl = <Store extends typeof leases | typeof tasks>(store: Store, ttl: object) =>
    instead(store, { capabilities: { ...store.capabilities, ttl } });
  const limits = { shortestTtlMs: 2_000, longestTtlMs: 40_000 };
  const { ask } = await openTestApp({
    ...stores,
    leases: withTtl(leases, { minMs: 1_000, maxMs: 30_000, stepMs: 1 }),
    tasks: withTtl(tasks, { minMs: 3_000, maxMs: 50_000, stepMs: 1_000 }),
    limits,
  });
  const ofLeases = { minMs: 2_000, maxMs: 30_000, stepMs: 1 };
  const ofTasks = { minMs: 3_000, maxMs: 40_000, stepMs: 1_000 };
  const capabilities = (await ask("GET", "/v1/capabilities")).body;
  expect([capabilities.leases.ttl, capabilities.tasks.ttl]).toEqual([ofLeases, ofTasks]);
  const { engine } = (await ask("GET", "/v1/overview")).body;
  expect([engine.leases.ttl, engine.tasks.ttl]).toEqual([ofLeases, ofTasks]);
});
