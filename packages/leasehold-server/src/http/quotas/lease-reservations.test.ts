/** What a request reserves of a tenant's lease records: what it does not use is returned, and no more. */
import { newLeaseId } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";
import { HistoryBudget } from "./history-budget.js";
import { Quotas } from "./quotas.js";
import { Records } from "./records.js";

/** `reserved` runs a call, and returns how many more leases and records the tenant has reserved by then. */
async function open() {
  const env = manualEnv();
  const notes = [vi.spyOn(Quotas.prototype, "note"), vi.spyOn(Records.prototype, "note")] as const;
  onTestFinished(() => {
    for (const note of notes) note.mockRestore();
  });
  const app = await openTestApp({ env, limits: { leases: 10 } });
  const reserved = async (call: () => Promise<unknown>) => {
    for (const note of notes) note.mockClear();
    await call();
    return notes.map(({ mock }) =>
      mock.calls.reduce((sum, [quota, namespace, change]) => {
        expect([quota, namespace]).toEqual(["leases", "default"]);
        return sum + change;
      }, 0),
    );
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

test("the limit of tasks says nothing of the history of leases", async () => {
  const limit = vi.spyOn(HistoryBudget.prototype, "limit");
  onTestFinished(() => limit.mockRestore());
  const limits = { leases: 200, recordsPerLease: 100, tasks: 5, recordsPerTask: 1 };
  const { ask } = await openTestApp({ env: manualEnv(), limits });
  expect((await ask("POST", "/api/tasks", { task_data: 1 })).status).toBe(201);
  expect(limit).not.toHaveBeenCalled();
  await ask("POST", "/v1/locks/acquire", { resource: "r", ownerId: "h" });
  expect(limit.mock.calls).toEqual([["default", 20_000]]);
});
