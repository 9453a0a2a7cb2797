import { expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faulty-store.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";

function world() {
  const env = manualEnv();
  const store = faultyStore(env);
  const client = (holder: string) => new LeaseClient(store, { env, holder }, { close: undefined });
  return { clock: env.clock, store, a: client("a"), b: client("b") };
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
