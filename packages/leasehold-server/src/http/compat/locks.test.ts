import { grantIdOf } from "leasehold/internal";
import { fromWireLeaseId, toWireLeaseId } from "leasehold/internal/wire";
import { type ManualClock, manualEnv } from "leasehold/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Asked, openApp } from "../../../../../tests/support/server/app.js";

let app: Asked;
let clock: ManualClock;
beforeAll(async () => {
  const env = manualEnv();
  clock = env.clock;
  app = await openApp({ env });
});
afterAll(() => app.close());

const acquire = (resource: string, more: object = {}) =>
  app.ask("POST", "/v1/locks/acquire", { resource, ownerId: "worker-7", ttlSeconds: 60, ...more });

describe("acquire", () => {
  test("grants a request in the compatibility format", async () => {
    const { status, body } = await app.ask("POST", "/v1/locks/acquire", {
      resource: "tenant_123:billing-close:2026-04",
      ownerId: "worker-7",
      ttlSeconds: 60,
    });
    expect(status).toBe(200);
    const id = fromWireLeaseId(body.leaseId);
    expect(id?.resource).toBe("tenant_123:billing-close:2026-04");
    expect(body).toEqual({
      acquired: true,
      leaseId: body.leaseId,
      resource: "tenant_123:billing-close:2026-04",
      ownerId: "worker-7",
      grantId: grantIdOf(id?.leaseId ?? ""),
      fencingToken: expect.any(Number),
      ttlMs: 60_000,
      remainingMs: 60_000,
      expiresAt: expect.stringMatching(/Z$/),
    });
  });

  test("returns the holder, with 200, until the lease expires; the token grows", async () => {
    const first = await acquire("held");
    await clock.advance(59_999);
    const second = await acquire("held", { ownerId: "worker-8" });
    expect(second.status).toBe(200);
    expect(second.body).toEqual({
      acquired: false,
      resource: "held",
      ownerId: "worker-7",
      grantId: first.body.grantId,
      remainingMs: 1,
    });
    await clock.advance(1);
    const third = await acquire("held", { ownerId: "worker-8" });
    expect(third.body).toMatchObject({ acquired: true, ownerId: "worker-8" });
    expect(third.body.fencingToken).toBeGreaterThan(first.body.fencingToken);
  });

  test("grants for 30 s by default, or for a TTL in milliseconds", async () => {
    const plain = await app.ask("POST", "/v1/locks/acquire", { resource: "d", ownerId: "w" });
    expect(plain.body.ttlMs).toBe(30_000);
    expect((await acquire("ms", { ttlSeconds: undefined, ttlMs: 250 })).body.ttlMs).toBe(250);
  });

  test("can be repeated under a chosen leaseId until that grant has ended", async () => {
    const leaseId = toWireLeaseId("own", "0123456789abcdef".repeat(3));
    const first = await acquire("own", { leaseId });
    await clock.advance(1_000);
    const again = await acquire("own", { leaseId });
    expect(again.body).toEqual({ ...first.body, remainingMs: 59_000 });
    await app.ask("DELETE", `/v1/locks/${leaseId}`);
    const ended = await acquire("own", { leaseId });
    expect([ended.status, ended.body.code]).toEqual([409, "LEASE_ENDED"]);
    const other = await acquire("other", { leaseId });
    expect(other.body.errors).toEqual([
      { path: "leaseId", problem: "must name the same resource" },
    ]);
  });

  test("refuses resources of tasks", async () => {
    const { status, body } = await acquire("task:1");
    expect([status, body.errors[0].path]).toEqual([422, "resource"]);
  });
});

describe("renew", () => {
  test("renews under the same token, with the grant's TTL or the requested one", async () => {
    const { body: lock } = await acquire("renewed");
    await clock.advance(50_000);
    const plain = await app.ask("POST", `/v1/locks/${lock.leaseId}/renew`);
    expect(plain.status).toBe(200);
    expect(plain.body).toEqual({
      renewed: true,
      resource: "renewed",
      grantId: lock.grantId,
      fencingToken: lock.fencingToken,
      ttlMs: 60_000,
      remainingMs: 60_000,
      expiresAt: expect.any(String),
    });
    const path = `/v1/locks/${lock.leaseId}/renew`;
    for (const length of [{ "content-length": "0" }, {}]) {
      const headers = { "content-type": "application/json", ...length };
      expect(await app.ask("POST", path, undefined, { headers })).toMatchObject({ status: 200 });
      expect(await app.ask("POST", path, "", { headers })).toMatchObject({ status: 200 });
    }
    const longer = await app.ask("POST", `/v1/locks/${lock.leaseId}/renew`, { ttlSeconds: 90 });
    expect(longer.body).toMatchObject({ ttlMs: 90_000, remainingMs: 90_000 });
  });

  test("returns the reason of a lost lease", async () => {
    const refusal = async (leaseId: string) => {
      const { status, body } = await app.ask("POST", `/v1/locks/${leaseId}/renew`);
      return [status, body.code, body.reason];
    };
    const { body: expired } = await acquire("expired");
    await clock.advance(60_000);
    expect(await refusal(expired.leaseId)).toEqual([409, "LEASE_EXPIRED", "expired"]);
    await acquire("expired");
    expect(await refusal(expired.leaseId)).toEqual([409, "LEASE_TAKEN", "taken"]);
    const { body: revoked } = await acquire("revoked");
    await app.ask("POST", "/v1/leases/revoke", [{ resource: "revoked" }]);
    expect(await refusal(revoked.leaseId)).toEqual([409, "LEASE_REVOKED", "revoked"]);
    const { body: released } = await acquire("released");
    await app.ask("DELETE", `/v1/locks/${released.leaseId}`);
    expect(await refusal(released.leaseId)).toEqual([409, "LEASE_RELEASED", "released"]);
    const never = toWireLeaseId("never", "0".repeat(48));
    expect((await refusal(never)).slice(0, 2)).toEqual([404, "UNKNOWN_LEASE"]);
    expect((await refusal("lease_abc")).slice(0, 2)).toEqual([404, "UNKNOWN_LEASE"]);
  });
});

test("release frees the lock at once, and can be repeated", async () => {
  const { body: lock } = await acquire("to release");
  const path = `/v1/locks/${lock.leaseId}`;
  expect(await app.ask("DELETE", path)).toMatchObject({ status: 200, body: { released: true } });
  expect(await app.ask("DELETE", path)).toMatchObject({ status: 200, body: { released: true } });
  expect((await acquire("to release", { ownerId: "next" })).body.acquired).toBe(true);
  expect(await app.ask("DELETE", path)).toMatchObject({ status: 200, body: { released: false } });
  expect(await app.ask("DELETE", "/v1/locks/lease_abc")).toMatchObject({ status: 404 });
  // The late release did not end the next grant.
  expect((await acquire("to release")).body).toMatchObject({ acquired: false, ownerId: "next" });
});

test("lists held locks by prefix, page by page, without secrets", async () => {
  const locks = [];
  for (const name of ["list/a", "list/b%", "list/c"]) locks.push((await acquire(name)).body);
  await app.ask("DELETE", `/v1/locks/${locks[0].leaseId}`);
  const first = await app.ask("GET", "/v1/locks?prefix=list/&limit=1");
  expect(first.body).toEqual({
    items: [
      {
        resource: "list/b%",
        ownerId: "worker-7",
        grantId: locks[1].grantId,
        fencingToken: locks[1].fencingToken,
        state: "live",
        ttlMs: 60_000,
        remainingMs: 60_000,
        freeInMs: null,
        expiresAt: locks[1].expiresAt,
        createdAt: expect.any(String),
        renewedAt: null,
        metadata: null,
      },
    ],
    nextCursor: "after:list/b%",
  });
  const cursor = encodeURIComponent(first.body.nextCursor);
  const second = await app.ask("GET", `/v1/locks?prefix=list/&limit=1&cursor=${cursor}`);
  expect(second.body).toMatchObject({ items: [{ resource: "list/c" }], nextCursor: null });
  const exact = await app.ask("GET", `/v1/locks?resource=${encodeURIComponent("list/b%")}`);
  expect(exact.body).toEqual({ items: first.body.items, nextCursor: null });
  expect((await app.ask("GET", "/v1/locks?resource=list/a")).body.items).toEqual([]);
  for (const { leaseId } of locks) {
    expect(JSON.stringify([first, second, exact])).not.toContain(leaseId.split(".")[1]);
  }
});

test("shows a lock to its holder while it is held", async () => {
  const name = "🔑/".repeat(51);
  const { body: lock } = await acquire(name);
  const shown = await app.ask("GET", `/v1/locks/${lock.leaseId}`);
  expect(shown.body).toMatchObject({ resource: name, fencingToken: lock.fencingToken });
  await clock.advance(60_000);
  expect(await app.ask("GET", `/v1/locks/${lock.leaseId}`)).toMatchObject({ status: 404 });
});
