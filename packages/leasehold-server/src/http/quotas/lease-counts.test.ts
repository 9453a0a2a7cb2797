/** What a tenant has after its own requests, as its limits count it until the next count of the store. */
import { newLeaseId, resourceOf } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";

async function open(limits: object) {
  const env = manualEnv();
  const stores = await memory().open(env);
  const tenants = openTenants(stores, env, limits);
  onTestFinished(async () => {
    await tenants.app.close();
    await stores.close();
  });
  const { text } = await tenants.newKey("a", "admin");
  const send = async (method: string, path: string, body?: unknown) => {
    const answer = await tenants.ask(text, { method, path, body });
    return { status: answer.status, body: JSON.parse(answer.text) };
  };
  const newGrant = (resource: string) => toWireLeaseId(resource, newLeaseId(env.random));
  const acquire = (leaseId: string) =>
    send("POST", "/v1/leases/acquire", [{ leaseId, holder: "h", ttlMs: 60_000 }]);
  return { send, newGrant, acquire };
}

test("a repeated release makes no more room than the first", async () => {
  const { send, newGrant, acquire } = await open({ leases: 2 });
  const leaseId = newGrant("a");
  await acquire(leaseId);
  expect((await acquire(newGrant("b"))).status).toBe(200);
  for (let n = 0; n < 10; n += 1) await send("POST", "/v1/leases/release", [{ leaseId }]);
  const statuses = [];
  for (const resource of ["c", "d", "e"]) statuses.push((await acquire(newGrant(resource))).status);
  expect(statuses).toEqual([200, 429, 429]);
});

test("a repeated acquire takes no more room than the first", async () => {
  const { newGrant, acquire } = await open({ leases: 2 });
  const leaseId = newGrant("a");
  for (let n = 0; n < 2; n += 1) expect((await acquire(leaseId)).status).toBe(200);
  expect((await acquire(newGrant("b"))).status).toBe(200);
});

test.each([
  ["/v1/once/succeed", { value: 1 }],
  ["/v1/once/fail", { error: "no" }],
])(
  "a lease that ends by %s makes room for another at once, as a release does",
  async (path, how) => {
    const { send, newGrant, acquire } = await open({ leases: 1 });
    for (const key of ["a", "b", "c"]) {
      const leaseId = newGrant(resourceOf(key));
      const { status, body } = await acquire(leaseId);
      expect([key, status]).toEqual([key, 200]);
      await send("POST", path, { leaseId, token: body[0].token, ...how });
    }
  },
);

test("a lease that an operator ends makes room for another at once, as a release does", async () => {
  const { send, newGrant, acquire } = await open({ leases: 1 });
  for (const resource of ["a", "b", "c"]) {
    expect([resource, (await acquire(newGrant(resource))).status]).toEqual([resource, 200]);
    await send("POST", "/v1/leases/revoke", [{ resource, free: "now", reason: "r" }]);
  }
});

test("a lease that is revoked twice, and then released by its holder, makes room once", async () => {
  const { send, newGrant, acquire } = await open({ leases: 2 });
  const leaseId = newGrant("a");
  await acquire(leaseId);
  await acquire(newGrant("b"));
  for (const free of ["atExpiry", "now"]) {
    const revoked = await send("POST", "/v1/leases/revoke", [{ resource: "a", free, reason: "r" }]);
    expect(revoked.body).toMatchObject([{ status: "revoked" }]);
  }
  await send("POST", "/v1/leases/release", [{ leaseId }]);
  expect((await acquire(newGrant("c"))).status).toBe(200);
  expect((await acquire(newGrant("d"))).status).toBe(429);
});
