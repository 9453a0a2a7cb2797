import { newLeaseId, systemRandom, zip } from "../../env/index.js";
import type { AcquireOutcome } from "../../lease/index.js";
import { shuffled } from "../shuffled.js";
import { type Fixture, grantOf, type Held, type Section } from "./fixture.js";

export const batches: Section = (test, expect) => {
  test("may be empty", async ({ store }) => {
    expect(await store.acquire([])).toEqual([]);
    expect(await store.renew([])).toEqual([]);
    expect(await store.release([])).toEqual([]);
    expect(await store.revoke([])).toEqual([]);
    expect(await store.get([])).toEqual([]);
  });

  test("decide acquires of one key in order", async (t) => {
    const [a, b] = [t.request(t.key("one")), t.request(t.key("one"))];
    const other = t.request(t.key("other"));
    const [first, refused, elsewhere, repeated, again] = await t.acquireAll([a, b, other, a, b]);
    const { token } = t.expectAcquired(first as AcquireOutcome);
    expect(refused).toMatchObject({ status: "held", holder: a.holder });
    expect(elsewhere).toMatchObject({ status: "acquired" });
    expect(repeated).toMatchObject({ status: "acquired", token });
    expect(again).toMatchObject({ status: "held", holder: a.holder });
  });

  test("decide acquires of one key in order also where it has ended before", async (t) => {
    const ended = await t.hold();
    await t.release(ended);
    const [a, b] = [t.request(t.key()), t.request(t.key())];
    // Before `a` its record is the last one; after `a` it is forgotten, and held like any other.
    const outcomes = await t.acquireAll([ended, a, ended, b, a]);
    expect(outcomes.map(({ status }) => status)).toEqual([
      "ended",
      "acquired",
      "held",
      "held",
      "acquired",
    ]);
  });

  test("decide acquires of one key in order also where one repeats a grant that was revoked", async (t) => {
    const keys = Array.from({ length: 20 }, (_, index) => t.key(`key ${index}`));
    const revoked = await Promise.all(keys.map((key) => t.hold(key)));
    await t.revokeAll(keys.map((key) => ({ ...key, free: "now" })));
    const next = keys.map((key) => t.request(key));
    const outcomes = await t.acquireAll([...next, ...revoked]);
    expect(outcomes.map(({ status }) => status)).toEqual([
      ...next.map(() => "acquired"),
      ...revoked.map(() => "held"),
    ]);
  });

  test("decide renewals of one key in order", async (t) => {
    const held = await t.hold();
    const mine = { ...grantOf(held), ttlMs: t.longTtlMs };
    const stranger = { ...mine, leaseId: newLeaseId(systemRandom) };
    expect(await t.renewAll([stranger, mine, stranger, mine])).toMatchObject([
      { status: "lost", reason: "taken" },
      { status: "renewed" },
      { status: "lost", reason: "taken" },
      { status: "renewed" },
    ]);
  });

  test("decide renewals of one grant in order, never shortening it", async (t) => {
    const held = await t.hold();
    const mine = { ...grantOf(held), ttlMs: t.longTtlMs };
    const outcomes = await t.renewAll([mine, { ...mine, ttlMs: t.shortTtlMs }]);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: "renewed" });
      if (outcome.status !== "renewed") return;
      expect(outcome.remainingMs).toBeGreaterThan(t.longTtlMs / 2);
    }
  });

  test("decide releases of one key in order", async (t) => {
    const held = await t.hold();
    const mine = grantOf(held);
    const stranger = { ...mine, leaseId: newLeaseId(systemRandom) };
    const outcomes = await t.releaseAll([stranger, mine, stranger]);
    expect(outcomes.map(({ status }) => status)).toEqual(["notHeld", "released", "notHeld"]);
    const next = grantOf(await t.hold());
    const [once, twice] = await t.releaseAll([next, next]);
    expect(once).toEqual({ status: "released" });
    if (t.store.capabilities.clock === "store") expect(twice).toEqual({ status: "released" });
  });

  test("decide revokes of one key in order", async (t) => {
    const { answer } = await t.hold();
    const key = t.key();
    const outcomes = await t.revokeAll([
      { ...key, free: "now", expectedToken: answer.token + 1 },
      { ...key, free: "atExpiry", expectedToken: answer.token },
      { ...key, free: "atExpiry" },
      { ...key, free: "now" },
      { ...key, free: "now" },
    ]);
    expect(outcomes).toMatchObject([
      { status: "otherToken" },
      { status: "revoked", token: answer.token },
      { status: "revoked", token: answer.token },
      { status: "revoked", token: answer.token, freeInMs: 0 },
      { status: "notHeld" },
    ]);
  });

  test("tell one resource of two namespaces apart", async (t) => {
    const here = t.request(t.key());
    const there = { ...t.request(t.key()), namespace: `${t.namespace}-2` };
    const acquired = await t.acquireAll([here, there]);
    for (const outcome of acquired) t.expectAcquired(outcome);
    const [wrong, right] = await t.releaseAll([
      { ...grantOf(here), namespace: there.namespace },
      grantOf(here),
    ]);
    expect([wrong?.status, right?.status]).toEqual(["notHeld", "released"]);
    const views = await t.store.get([here, there]);
    expect(views.map((view) => view?.namespace)).toEqual([here.namespace, there.namespace]);
    expect(views[1]).toMatchObject({ state: "live", holder: there.holder });
  });

  test("answer in the order of the requests, however large and mixed", async (t) => {
    const keys = shuffled(Array.from({ length: 500 }, (_, index) => t.key(`key ${index}`)));
    const owners = await holdAll(t, keys.slice(0, 300));

    // Every second key is tried by its owner again, the others by strangers.
    const tries = shuffled(keys).map((key, index) => {
      const owner = owners.get(key.resource);
      return index % 2 === 0 && owner ? owner : { ...t.request(key), ttlMs: t.longTtlMs };
    });
    const acquired = await t.acquireAll(tries);
    for (const [index, request] of tries.entries()) {
      const owner = owners.get(request.resource);
      expect(acquired[index]).toMatchObject(
        owner === undefined
          ? { status: "acquired" }
          : owner === request
            ? { status: "acquired", token: owner.answer.token }
            : { status: "held", holder: owner.holder },
      );
    }

    const mixed = shuffled(tries).map((request) => ({ ...request, ttlMs: t.longTtlMs }));
    const holds = (request: { resource: string; leaseId: string }): boolean =>
      (owners.get(request.resource)?.leaseId ?? request.leaseId) === request.leaseId;
    const renewed = await t.renewAll(mixed.map((request) => ({ ...request })));
    for (const [index, request] of mixed.entries()) {
      expect(renewed[index]?.status).toBe(holds(request) ? "renewed" : "lost");
    }
    const released = await t.releaseAll(mixed.map(grantOf));
    for (const [index, request] of mixed.entries()) {
      expect(released[index]?.status).toBe(holds(request) ? "released" : "notHeld");
    }
    const freed = new Set(mixed.filter(holds).map(({ resource }) => resource));
    const revoked = await t.revokeAll(keys.map((key) => ({ ...key, free: "now" })));
    for (const [index, { resource }] of keys.entries()) {
      expect(revoked[index]).toMatchObject(
        freed.has(resource)
          ? { status: "notHeld" }
          : { status: "revoked", token: owners.get(resource)?.answer.token },
      );
    }
  });
};

async function holdAll(
  t: Fixture,
  keys: readonly { namespace: string; resource: string }[],
): Promise<ReadonlyMap<string, Held>> {
  // For long: a store may give up on a call that takes a share of the shortest ttl, and this one is large.
  const requests = keys.map((key) => ({ ...t.request(key), ttlMs: t.longTtlMs }));
  const outcomes = await t.acquireAll(requests);
  return new Map(
    [...zip(requests, outcomes)].map(([request, outcome]) => {
      const answer = t.expectAcquired(outcome);
      return [request.resource, { ...request, answer, sentMs: 0 }];
    }),
  );
}
