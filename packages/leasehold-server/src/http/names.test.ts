import { toWireLeaseId } from "leasehold/internal/wire";
import { expect, test } from "vitest";
import { expectProblem, openTestApp } from "../../../../tests/support/server/app.js";

const NAME = "a\u200bb";
const LEASE_ID = "1".repeat(48);
const OF_NAME = toWireLeaseId(NAME, LEASE_ID);

test.each([
  ["POST", "/v1/locks/acquire", { resource: NAME, ownerId: "o" }, "resource"],
  ["POST", "/v1/locks/acquire", { resource: "r", ownerId: NAME }, "ownerId"],
  ["POST", "/api/leases", { resource: NAME, holder: "h" }, "resource"],
  ["POST", "/api/leases", { resource: "r", holder: NAME }, "holder"],
  ["POST", "/v1/leases/acquire", [{ leaseId: OF_NAME, holder: "h", ttlMs: 5_000 }], "0.leaseId"],
  [
    "POST",
    "/v1/leases/acquire",
    [{ leaseId: toWireLeaseId("r", LEASE_ID), holder: NAME, ttlMs: 5_000 }],
    "0.holder",
  ],
  ["POST", "/api/tasks", { task_data: 1, kind: NAME }, "kind"],
  ["POST", "/api/tasks", { task_data: 1, queue: NAME }, "queue"],
  ["POST", "/api/tasks/next", { processor: NAME }, "processor"],
])("%s %s refuses a new name with invisible characters: %j", async (method, path, body, field) => {
  const { ask } = await openTestApp();
  const refused = await ask(method, path, body);
  expectProblem(refused, 422, "INVALID_REQUEST");
  expect(refused.body.errors).toMatchObject([{ path: field }]);
  expect(refused.body.detail).toContain("U+200B");
});

test("a lease and a task with such names, from before, stay usable", async () => {
  const { ask, stores } = await openTestApp();
  const lease = { namespace: "default", resource: NAME, leaseId: LEASE_ID, holder: NAME };
  await stores.leases.acquire([{ ...lease, ttlMs: 5_000 }]);
  const renewed = await ask("POST", "/v1/leases/renew", [{ leaseId: OF_NAME, ttlMs: 5_000 }]);
  expect(renewed.body).toMatchObject([{ status: "renewed" }]);
  const listed = await ask("GET", `/v1/leases?prefix=${encodeURIComponent(NAME)}`);
  expect(listed.body.items).toMatchObject([{ resource: NAME, holder: NAME }]);
  expect((await ask("POST", "/v1/leases/get", [NAME])).body).toMatchObject([{ holder: NAME }]);
  expect((await ask("POST", `/v1/locks/${OF_NAME}/renew`, {})).status).toBe(200);
  expect((await ask("DELETE", `/v1/locks/${OF_NAME}`)).status).toBe(200);
});
