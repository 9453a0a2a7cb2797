/** A lease that was revoked at its expiry: it has no holder, and excludes others until then. */
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";

const UNLOCK = { resource: "a", reason: "stuck" };

async function open() {
  const env = manualEnv();
  const { ask } = await openTestApp({ env });
  const get = async (path: string) => (await ask("GET", path)).body;
  const acquire = async (resource: string) =>
    (await ask("POST", "/v1/locks/acquire", { resource, ownerId: "me" })).body;
  const unlock = async (more: object = {}) =>
    (await ask("POST", "/v1/locks/force-unlock", { ...UNLOCK, ...more })).body;
  return { ask, get, acquire, unlock, clock: env.clock };
}

test("force-unlock says that the lock is free only when it is", async () => {
  const { acquire, unlock, clock } = await open();
  await acquire("a");
  await clock.advance(10_000);
  expect(await unlock()).toMatchObject({
    revoked: true,
    unlocked: false,
    why: null,
    freeInMs: 20_000,
  });
  expect(await unlock({ free: "now" })).toMatchObject({
    revoked: true,
    unlocked: true,
    why: null,
    freeInMs: 0,
  });
  expect(await unlock()).toMatchObject({ revoked: false, unlocked: false, why: "notHeld" });
});

test("lists show the revoked lease until its resource is free", async () => {
  const { ask, get, acquire, unlock, clock } = await open();
  await acquire("a");
  await acquire("b");
  await unlock();
  await clock.advance(10_000);
  expect(await acquire("a")).toMatchObject({ acquired: false, remainingMs: 20_000 });

  const blocking = { resource: "a", state: "revoked", remainingMs: 0, freeInMs: 20_000 };
  const locks = await get("/v1/locks");
  expect(locks.items).toMatchObject([blocking, { resource: "b", state: "live", freeInMs: null }]);
  expect(await get("/v1/locks?limit=1")).toMatchObject({
    items: [blocking],
    nextCursor: "after:a",
  });
  expect((await get("/v1/locks?resource=a")).items).toMatchObject([blocking]);
  expect((await get("/v1/leases?state=revoked")).items).toMatchObject([blocking]);
  const [view] = (await ask("POST", "/v1/leases/get", ["a"])).body;
  expect(view).toMatchObject(blocking);
  expect((await get("/v1/resource?name=a")).items).toMatchObject([
    { state: "revoked", freeInMs: 20_000 },
  ]);
  for (const path of ["?status=revoked", "/revoked", "?status=revoked&status=expired"]) {
    expect((await get(`/api/leases${path}`)).items).toMatchObject([blocking]);
  }
  const live = await get("/api/leases?status=live");
  expect(live.items).toMatchObject([{ resource: "b", freeInMs: null }]);
  expect((await get("/v1/overview")).leases).toMatchObject({ held: 2, ended: 0 });

  await clock.advance(20_000);
  expect((await get("/v1/locks")).items).toEqual([]);
  const [ended] = (await ask("POST", "/v1/leases/get", ["a"])).body;
  expect(ended.freeInMs).toBe(undefined);
  const { items } = await get("/api/leases?status=revoked");
  expect(items).toMatchObject([{ resource: "a", state: "revoked", freeInMs: null }]);
  expect(await acquire("a")).toMatchObject({ acquired: true });
});

test("force-unlock ends no other grant than the expected one", async () => {
  const { acquire, unlock } = await open();
  const { fencingToken } = await acquire("a");
  const other = { free: "now", expectedToken: fencingToken + 1 };
  expect(await unlock(other)).toMatchObject({
    revoked: false,
    unlocked: false,
    why: "otherToken",
    fencingToken: null,
    freeInMs: null,
  });
  expect(await unlock({ free: "now", expectedToken: fencingToken })).toMatchObject({
    revoked: true,
    unlocked: true,
    why: null,
    fencingToken,
    freeInMs: 0,
  });
});
