/** What a request reserves of a tenant's lease records: what it does not use is returned, and no more. */
import { newLeaseId } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";
import { Quotas } from "./quotas.js";

/** `reserved` runs a call, and returns how many more leases and records the tenant has reserved by then. */
async function open() {
  const env = manualEnv();
  const note = vi.spyOn(Quotas.prototype, "note");
  onTestFinished(() => note.mockRestore());
  const app = await openTestApp({ env, limits: { leases: 10 } });
  const reserved = async (call: () => Promise<unknown>) => {
    note.mockClear();
    await call();
    const reserved = { live: 0, records: 0 };
    for (const [quota, namespace, change] of note.mock.calls) {
      expect([quota, namespace]).toEqual(["leases", "default"]);
      reserved.live += change.live ?? 0;
      reserved.records += change.records ?? 0;
    }
    return [reserved.live, reserved.records];
  };
  const newGrant = (resource: string) => toWireLeaseId(resource, newLeaseId(env.random));
  const acquire = (leaseId: string, holder = "h") =>
    app.ask("POST", "/v1/leases/acquire", [{ leaseId, holder, ttlMs: 1_000 }]);
  return { ...app, env, reserved, newGrant, acquire };
}

test("a grant needs a place and a record; one that replaces another uses its record", async () => {
  const { env, reserved, newGrant, acquire } = await open();
  expect(await reserved(() => acquire(newGrant("r")))).toEqual([1, 1]);
  await env.clock.advance(1_000);
  expect(await reserved(() => acquire(newGrant("r")))).toEqual([1, 0]);
});

test("a refused acquire returns both, and a release its place alone", async () => {
  const { ask, reserved, newGrant, acquire } = await open();
  const held = newGrant("r");
  await acquire(held);
  expect(await reserved(() => acquire(newGrant("r")))).toEqual([0, 0]);
  const release = (leaseId: string) => ask("POST", "/v1/leases/release", [{ leaseId }]);
  expect(await reserved(() => release(newGrant("r")))).toEqual([0, 0]);
  expect(await reserved(() => release(held))).toEqual([-1, 0]);
});

test("so do the formats for single leases, and asking why an acquire is denied keeps nothing", async () => {
  const { ask, reserved } = await open();
  const lock = () => ask("POST", "/v1/locks/acquire", { resource: "l", ownerId: "h" });
  expect(await reserved(lock)).toEqual([1, 1]);
  expect(await reserved(lock)).toEqual([0, 0]);
  const lease = () => ask("POST", "/api/leases", { resource: "s", holder: "h" });
  expect(await reserved(lease)).toEqual([1, 1]);
  expect(await reserved(lease)).toEqual([0, 0]);
  expect(await reserved(() => ask("GET", "/v1/resource?name=new"))).toEqual([0, 0]);
});
