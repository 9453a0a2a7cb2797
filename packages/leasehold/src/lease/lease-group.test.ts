import { expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";
import { StoreUnavailableError } from "./errors.js";
import { acquireInOrder } from "./lease-group.js";
import type { LeaseStore } from "./port.js";

function world() {
  const env = manualEnv();
  const store = faultyStore(env);
  const client = (holder: string, release: LeaseStore["release"] = store.release) =>
    new LeaseClient({ ...store, release }, { env, holder }, { close: undefined });
  return { env, clock: env.clock, store, client, a: client("a"), b: client("b") };
}

it("holds all, in the order asked for, and gives all back", async () => {
  const { a, b } = world();
  const all = await a.acquireAll(["z", "a", "m"]);
  expect(all.leases.map(({ resource }) => resource)).toEqual(["z", "a", "m"]);
  expect(all.checkAlive()).toBe(true);
  for (const name of ["z", "a", "m"]) expect(await b.tryAcquire(name)).toBeNull();
  await all.release();
  const others = await b.acquireAll(["a", "m", "z"]);
  await others[Symbol.asyncDispose]();
  for (const name of ["z", "a", "m"]) expect(await a.tryAcquire(name)).not.toBeNull();
});

it("waits for all of them together no longer than waitMs", async () => {
  const { clock, a, b } = world();
  await clock.advance(60_000);
  await b.acquire("a", { ttlMs: 1_000, autoRenew: false });
  await b.acquire("m");
  const refused = a.acquireAll(["a", "m"], { waitMs: 1_500 }).catch((error: unknown) => error);
  await clock.advance(1_500);
  expect(await refused).toMatchObject({ code: "LEASE_UNAVAILABLE", resource: "m" });
});

it("waits for all of them together no longer than the default waitMs of its client", async () => {
  const { env, clock, store, b } = world();
  const options = { env, holder: "a", defaults: { waitMs: 1_500 } };
  const a = new LeaseClient(store, options, { close: undefined });
  await b.acquire("a", { ttlMs: 1_000, autoRenew: false });
  await b.acquire("m");
  let hasEnded = false;
  const refused = a.acquireAll(["a", "m"]).catch((error: unknown) => error);
  void refused.then(() => (hasEnded = true));
  await clock.advance(1_499);
  expect(hasEnded).toBe(false);
  await clock.advance(1);
  expect(hasEnded).toBe(true);
  expect(await refused).toMatchObject({ code: "LEASE_UNAVAILABLE", resource: "m" });
});

it("rejects if a release is not confirmed, when the others have been released", async () => {
  const { clock, client, store, b } = world();
  const error = new StoreUnavailableError("cut", { outcome: "unknown" });
  const failed = { status: "failed", applied: "maybe", retryable: false, error } as const;
  const a = client("a", async (requests) => {
    const outcomes = await store.release(requests);
    return outcomes.map((outcome, at) => (requests[at]?.resource === "a" ? failed : outcome));
  });
  const all = await a.acquireAll(["a", "m"]);
  const releasing = all.release().catch((error: unknown) => error);
  await clock.advance(1_000);
  expect(await releasing).toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect(await b.tryAcquire("m")).not.toBeNull();
});

it("rejects with the first error only when the others have been released, too", async () => {
  const { clock, client, store, b } = world();
  const error = new StoreUnavailableError("cut", { outcome: "unknown" });
  const failed = (retryable: boolean) =>
    ({ status: "failed", applied: "no", retryable, error }) as const;
  let tries = 0;
  const a = client("a", async (requests) => {
    const outcomes = await store.release(requests.filter(({ resource }) => resource === "none"));
    for (const { resource, ...grant } of requests) {
      if (resource === "m") tries += 1;
      if (resource === "m" && tries > 1) {
        outcomes.push(...(await store.release([{ resource, ...grant }])));
      } else {
        outcomes.push(failed(resource === "m"));
      }
    }
    return outcomes;
  });
  const group = await a.acquireAll(["a", "m"]);
  let isSettled = false;
  const releasing = group.release().catch((thrown: unknown) => thrown);
  void releasing.then(() => (isSettled = true));
  await clock.settle();
  // "a" has failed for good, but "m" is tried again.
  expect([tries, isSettled]).toEqual([1, false]);
  await clock.advance(1_000);
  expect(await releasing).toBe(error);
  expect(await b.tryAcquire("m")).not.toBeNull();
});

/** What `acquireInOrder` acquires and releases, in this order. */
async function orderOf(resources: readonly string[], failsAt?: string) {
  const { client, store } = world();
  const released: string[] = [];
  const a = client("a", (requests) => {
    for (const { resource } of requests) released.push(resource);
    return store.release(requests);
  });
  const acquired: string[] = [];
  const acquire = async (resource: string) => {
    if (resource === failsAt) throw new Error("no more");
    acquired.push(resource);
    return await a.acquire(resource);
  };
  await acquireInOrder(resources, acquire, () => Infinity).catch(() => {});
  return { acquired, released };
}

it.each([
  [
    ["b", "ab", "a", "aa"],
    ["a", "aa", "ab", "b"],
  ],
  [
    ["a", "aa", "ab", "b"],
    ["a", "aa", "ab", "b"],
  ],
  [
    ["x2", "x1"],
    ["x1", "x2"],
  ],
  // UTF-16 would order these two the other way.
  [
    ["\u{10000}", "\uffff"],
    ["\uffff", "\u{10000}"],
  ],
])("acquires %j in the order of bytes, as every client does", async (resources, expected) => {
  expect((await orderOf(resources)).acquired).toEqual(expected);
});

it("releases the last one first if it cannot have all", async () => {
  const { acquired, released } = await orderOf(["a", "b", "c", "d"], "d");
  expect(acquired).toEqual(["a", "b", "c"]);
  expect(released).toEqual(["c", "b", "a"]);
});

it.each([
  ["rejects with the loss", 0],
  ["begins anew", 1],
])("%s of one while the next is acquired, with %i ms left to wait", async (_, leftMs) => {
  const { clock, a } = world();
  let acquires = 0;
  const acquire = (resource: string) => {
    acquires += 1;
    if (acquires === 2) clock.jumpWall(60_000);
    return a.acquire(resource);
  };
  const answer = await acquireInOrder(["m", "a"], acquire, () => leftMs).catch(
    (error: unknown) => error,
  );
  if (leftMs === 0) {
    expect(answer).toMatchObject({ code: "LEASE_LOST", resource: "a", reason: "expired" });
    expect(await a.tryAcquire("m")).not.toBeNull();
  } else {
    expect(answer).toMatchObject({ leases: [{ resource: "m" }, { resource: "a" }] });
    expect(acquires).toBe(4);
  }
});

it("holds none when one cannot be had in time", async () => {
  const { clock, a, b } = world();
  const held = await b.acquire("m");
  const refused = expect(a.acquireAll(["a", "m", "z"], { waitMs: 500 })).rejects.toMatchObject({
    code: "LEASE_UNAVAILABLE",
    resource: "m",
    holder: "b",
  });
  await clock.advance(600);
  await refused;
  for (const name of ["a", "z"]) expect((await a.get(name))?.state ?? null).not.toBe("live");
  await held.release();
});

it("never waits in a circle", async () => {
  const { clock, a, b } = world();
  let [inside, rounds] = [0, 0];
  const take = async (client: LeaseClient, names: string[]) => {
    for (let round = 0; round < 10; round += 1) {
      const all = await client.acquireAll(names);
      inside += 1;
      expect(inside).toBe(1);
      await new Promise<void>((resolve) => void clock.timer(5, resolve));
      inside -= 1;
      rounds += 1;
      await all.release();
    }
  };
  const both = Promise.all([take(a, ["x", "y", "ä"]), take(b, ["ä", "y", "x"])]);
  await clock.advance(60_000);
  await both;
  expect(rounds).toBe(20);
});

it.each(["first", "last"])("aborts its signal when the %s of them alone is lost", async (lost) => {
  const { clock, a, b } = world();
  const group = await a.acquireAll(["first", "last"], { ttlMs: 1_000 });
  await b.revoke(lost, { free: "now" });
  await clock.advance(500);
  expect(group.signal.reason).toMatchObject({ code: "LEASE_LOST", resource: lost });
  expect(group.checkAlive()).toBe(false);
  expect(group.leases.map((lease) => lease.checkAlive())).toEqual([
    lost !== "first",
    lost !== "last",
  ]);
  await group.release();
});

it("notices the loss of each when it is checked, after the first that is lost, too", async () => {
  const { clock, a } = world();
  const group = await a.acquireAll(["a", "m", "z"], { ttlMs: 1_000 });
  const lost: string[] = [];
  for (const lease of group.leases) lease.onLost(() => lost.push(lease.resource));
  clock.jumpWall(1_000);
  expect(group.checkAlive()).toBe(false);
  expect(lost).toEqual(["a", "m", "z"]);
  await group.release();
});

it("logs each release that its disposal could not confirm", async () => {
  const warned: unknown[] = [];
  const warn = ({ resource }: { resource?: string }, message: string) =>
    void warned.push([message, resource]);
  const { env, clock, store, client } = world();
  Object.assign(env, { logger: { ...env.logger, warn } });
  const group = await client("a").acquireAll(["a", "m"]);
  store.faults.release = "refuse";
  const disposing = group[Symbol.asyncDispose]();
  await clock.advance(1_000);
  await disposing;
  expect(warned.sort()).toEqual([
    ["lease not released", "a"],
    ["lease not released", "m"],
  ]);
});

it("begins anew when one is lost while the next is waited for", async () => {
  const { clock, store, a, b } = world();
  const held = await b.acquire("m");
  const getting = a.acquireAll(["a", "m"], { ttlMs: 1_000 });
  await clock.advance(100);
  const first = await a.get("a");
  await b.revoke("a", { free: "now" });
  await clock.advance(1_000);
  await held.release();
  await clock.advance(1_000);
  const all = await getting;
  expect(all.leases[0]?.token).toBeGreaterThan(first?.token ?? 0);
  expect(all.checkAlive()).toBe(true);
  store.faults.renew = "refuse";
  await clock.advance(1_000);
  expect([all.signal.aborted, all.checkAlive()]).toEqual([true, false]);
  await all.release();
});

it("says what is wrong", async () => {
  const { a } = world();
  for (const names of [[], ["x", "x"], "x"]) {
    await expect(a.acquireAll(names as string[])).rejects.toMatchObject({ path: "resources" });
  }
  await expect(a.acquireAll(["x", ""])).rejects.toMatchObject({ path: "resource" });
});
