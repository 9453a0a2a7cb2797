import { fromWireLeaseId, toWireGrantId, toWireLeaseId } from "leasehold/internal/wire";
import { type ManualClock, manualEnv } from "leasehold/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Asked, openApp, type Reply } from "../../../../../tests/support/server/app.js";

let app: Asked;
let clock: ManualClock;
beforeAll(async () => {
  const env = manualEnv();
  clock = env.clock;
  app = await openApp({ env });
});
afterAll(() => app.close());

const post = (resource: string, holder = "holder_name", more: object = {}) =>
  app.ask("POST", "/api/leases", { resource, holder, ...more });
const renew = (body: object) => app.ask("PUT", "/api/leases/renew", body);
const release = (body: object) => app.ask("DELETE", "/api/leases/release", body);
const said = ({ status, body }: Reply) => [status, body.code, body.reason];

describe("requests in the compatibility format", () => {
  const body = { resource: "resource_name", holder: "holder_name" };

  test("acquire, renew and release by resource and holder", async () => {
    const taken = await app.ask("POST", "/api/leases", body);
    expect(taken.status).toBe(201);
    expect(taken.body).toEqual({
      id: toWireGrantId("resource_name", taken.body.grantId),
      ...body,
      created_at: expect.any(String),
      renewed_at: null,
      released_at: null,
      expires_at: expect.any(String),
      state: "live",
      grantId: expect.stringMatching(/^[0-9a-f]{16}$/),
      fencingToken: expect.any(Number),
      ttlMs: 30_000,
      remainingMs: 30_000,
      freeInMs: null,
      leaseId: expect.stringMatching(/^cmVzb3VyY2VfbmFtZQ\.[0-9a-f]{48}$/),
    });
    await clock.advance(20_000);
    const renewed = await app.ask("PUT", "/api/leases/renew", body);
    expect(renewed.status).toBe(200);
    const { leaseId, ...record } = taken.body;
    expect(renewed.body).toEqual({
      ...record,
      renewed_at: expect.any(String),
      expires_at: expect.any(String),
    });
    expect(renewed.body.expires_at > record.expires_at).toBe(true);
    const byId = await app.ask("DELETE", `/api/leases/${record.id}`, body);
    expect(byId).toMatchObject({ status: 200, body: { id: record.id, state: "released" } });
    const again = await app.ask("POST", "/api/leases", body);
    expect(again.body.fencingToken).toBeGreaterThan(record.fencingToken);
    const released = await app.ask("DELETE", "/api/leases/release", body);
    expect(released.body).toMatchObject({ id: again.body.id, state: "released", remainingMs: 0 });
    expect(released.body.released_at).toBe(released.body.expires_at);
    // As if the response was lost.
    expect(await app.ask("DELETE", "/api/leases/release", body)).toMatchObject({ status: 200 });
  });

  test("are refused if the grant has another holder, or if there is none", async () => {
    await post("mine", "me");
    expect(said(await renew({ resource: "mine", holder: "you" }))).toEqual([
      404,
      "UNKNOWN_LEASE",
      undefined,
    ]);
    expect(said(await release({ resource: "mine", holder: "you" }))[0]).toBe(404);
    expect(said(await renew({ resource: "none", holder: "me" }))).toEqual([
      404,
      "UNKNOWN_LEASE",
      undefined,
    ]);
    await clock.advance(30_000);
    expect(said(await renew({ resource: "mine", holder: "me" }))).toEqual([
      409,
      "LEASE_EXPIRED",
      "expired",
    ]);
    expect(said(await release({ resource: "mine", holder: "me" }))).toEqual([
      409,
      "LEASE_EXPIRED",
      "expired",
    ]);
  });
});

describe("a name", () => {
  test("excludes its namesake: one of two with the same name gets the lease", async () => {
    const [first, second] = await Promise.all([post("twins"), post("twins")]);
    expect([first.status, second.status].sort()).toEqual([201, 409]);
    const { body } = first.status === 409 ? first : second;
    const { grantId } = (first.status === 201 ? first : second).body;
    expect(body).toMatchObject({ code: "LEASE_HELD", holder: "holder_name", grantId });
    expect(body.remainingMs).toBe(30_000);
  });

  test("does not address a grant whose holder chose the leaseId", async () => {
    const leaseId = toWireLeaseId("secretive", "abcdef0123456789".repeat(3));
    await post("secretive", "me", { leaseId });
    for (const operation of [renew, release]) {
      const byName = await operation({ resource: "secretive", holder: "me" });
      expect(said(byName)).toEqual([409, "LEASE_ID_REQUIRED", undefined]);
    }
    expect((await renew({ leaseId })).status).toBe(200);
    expect((await renew({ leaseId, resource: "secretive", holder: "me" })).status).toBe(200);
    expect((await renew({ leaseId, holder: "you" })).status).toBe(404);
    await app.ask("POST", "/v1/locks/acquire", { resource: "a lock", ownerId: "me" });
    const lock = await release({ resource: "a lock", holder: "me" });
    expect(said(lock)[1]).toBe("LEASE_ID_REQUIRED");
  });

  test("addresses only the grant with the given token or id", async () => {
    const first = (await post("again", "me")).body;
    await clock.advance(30_000);
    const second = (await post("again", "me")).body;
    const body = { resource: "again", holder: "me" };
    for (const late of [
      await renew({ ...body, fencingToken: first.fencingToken }),
      await release({ ...body, fencingToken: first.fencingToken }),
      await app.ask("DELETE", `/api/leases/${first.id}`, body),
      await renew({ leaseId: first.leaseId }),
      await release({ leaseId: first.leaseId }),
    ]) {
      expect(said(late)).toEqual([409, "LEASE_TAKEN", "taken"]);
    }
    const kept = await renew({ ...body, fencingToken: second.fencingToken });
    expect(kept).toMatchObject({ status: 200, body: { id: second.id } });
  });
});

test("a repeated POST with the same leaseId returns the same grant", async () => {
  const leaseId = toWireLeaseId("repeated", "0123456789abcdef".repeat(3));
  const first = await post("repeated", "me", { leaseId, ttlSeconds: 5 });
  const again = await post("repeated", "me", { leaseId, ttlSeconds: 5 });
  expect(again).toMatchObject({ status: 201, body: first.body });
  expect((await release({ leaseId })).status).toBe(200);
  expect(said(await post("repeated", "me", { leaseId }))[1]).toBe("LEASE_ENDED");
});

test("invalid input is reported, and nothing is granted", async () => {
  const fields = async (reply: Promise<Reply>) => {
    const { status, body } = await reply;
    return [status, ...body.errors.map(({ path }: { path: string }) => path)];
  };
  expect(await fields(renew({}))).toEqual([422, "resource", "holder"]);
  expect(await fields(renew({ resource: "a" }))).toEqual([422, "holder"]);
  expect(await fields(release({ leaseId: "lease_abc" }))).toEqual([422, "leaseId"]);
  expect(await fields(post("task:1"))).toEqual([422, "resource"]);
  expect(await fields(post("a", "b", { ttl: 1 }))).toEqual([422, "ttl"]);
  expect(await fields(post("a", "b", { ttlMs: 1_000, ttlSeconds: 1 }))).toEqual([
    422,
    "ttlSeconds",
  ]);
  const leaseId = toWireLeaseId("b", "0".repeat(48));
  expect(await fields(post("a", "b", { leaseId }))).toEqual([422, "leaseId"]);
  expect(await fields(renew({ leaseId, resource: "a" }))).toEqual([422, "leaseId"]);
  const id = toWireGrantId("b", "0".repeat(16));
  await post("a", "me");
  const other = app.ask("DELETE", `/api/leases/${id}`, { resource: "a", holder: "me" });
  expect(await fields(other)).toEqual([422, "resource"]);
  expect(fromWireLeaseId(leaseId)?.resource).toBe("b");
});
