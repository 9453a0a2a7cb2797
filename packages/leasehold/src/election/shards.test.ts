import { describe, expect, it, vi } from "vitest";
import { SHARDS_TTL_MS, shardsWorld } from "../../../../tests/support/worlds/shards-world.js";
import { silentLogger } from "../env/index.js";
import { LeaseClient } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import { type ShardWork, shardsOver } from "./shards.js";

describe("Shards", () => {
  it("spreads shards over those that join, and moves few", async () => {
    const { clock, join, loads, working, overlaps, starts } = shardsWorld(10);
    const a = join("a");
    await clock.advance(3_000);
    expect(loads()).toEqual({ a: 10 });
    expect(a.shards.held).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(a.shards.coordinates).toBe(true);
    const b = join("b");
    await clock.advance(5_000);
    expect(loads()).toEqual({ a: 5, b: 5 });
    const before = new Map(working);
    const c = join("c");
    await clock.advance(5_000);
    expect(Object.values(loads()).sort()).toEqual([3, 3, 4]);
    const moved = [...working].filter(([shard, member]) => before.get(shard) !== member);
    expect(moved.length).toBeLessThanOrEqual(4);
    expect(await c.shards.owners()).toEqual(
      Array.from({ length: 10 }, (_, shard) => working.get(shard)),
    );
    await b.shards.close();
    await clock.advance(5_000);
    expect(loads()).toEqual({ a: 5, c: 5 });
    expect(starts()).toBeLessThanOrEqual(10 + 5 + 4 + 4);
    await a.shards.close();
    await clock.advance(5_000);
    expect(loads()).toEqual({ c: 10 });
    await c.shards.close();
    expect([overlaps(), working.size, clock.pendingTimers]).toEqual([0, 0, 0]);
  });

  it("waits for the drain before a shard is handed over", async () => {
    const { clock, join, loads, working, overlaps } = shardsWorld(4);
    const gates: (() => void)[] = [];
    const a = join("a", () => new Promise((resolve) => gates.push(resolve)));
    await clock.advance(3_000);
    const b = join("b");
    await clock.advance(10_000);
    // The work was asked to stop but has not ended: the shard is still a's.
    expect(loads()).toEqual({ a: 4 });
    expect(gates).toHaveLength(2);
    expect(b.shards.held).toEqual([]);
    for (const open of gates.splice(0)) open();
    await clock.advance(5_000);
    expect(loads()).toEqual({ a: 2, b: 2 });
    const closing = a.shards.close();
    await clock.advance(1_000);
    for (const open of gates.splice(0)) open();
    await closing;
    await b.shards.close();
    expect([overlaps(), working.size]).toEqual([0, 0]);
  });

  it("lets others have a shard whose work does not stop, at its expiry; and not itself before it has", async () => {
    const { clock, join, loads, working, store } = shardsWorld(4);
    const gates: (() => void)[] = [];
    const a = join("a", () => new Promise((resolve) => gates.push(resolve)), 2_000);
    await clock.advance(3_000);
    const b = join("b");
    await clock.advance(2_500);
    expect(gates).toHaveLength(2);
    // Within the grace, and as long as the store may think that a has it.
    expect(loads()).toEqual({ a: 4 });
    await clock.advance(2_000 + SHARDS_TTL_MS + 1_000);
    expect(loads()).toEqual({ a: 2, b: 2 });
    const stuck = [...working].filter(([, member]) => member === "b").map(([shard]) => shard);
    // Back to a, where the old work still runs.
    await b.shards.close();
    await clock.advance(10_000);
    expect(a.shards.held).toHaveLength(2);
    expect(stuck.some((shard) => a.shards.held.includes(shard))).toBe(false);
    const closing = a.shards.close();
    const refused = expect(closing).rejects.toMatchObject({
      code: "STILL_RUNNING",
      graceMs: 2_000,
      resource: expect.stringMatching(/^jobs\/shards\/\d$/),
    });
    await clock.advance(2_000);
    await refused;
    const views = await store.list({ namespace: "default", prefix: "jobs/members/" });
    expect(views.items.map(({ state }) => state)).toEqual(["released", "released"]);
    for (const open of gates.splice(0)) open();
    await clock.settle();
    await a.shards.close();
    expect(clock.pendingTimers).toBe(0);
  });

  it("gives the shards of a dead member to others within its TTL and one poll", async () => {
    const { clock, join, loads } = shardsWorld(12);
    const a = join("a");
    await clock.advance(2_000);
    const [b, c] = [join("b"), join("c")];
    await clock.advance(8_000);
    expect(loads()).toEqual({ a: 4, b: 4, c: 4 });
    // It coordinates, too.
    expect(a.shards.coordinates).toBe(true);
    a.cut();
    // The ttl of the coordinator's lease, a look of the next one, and a look of the heirs.
    await clock.advance(SHARDS_TTL_MS + 1_100 + 1_100 + 100);
    const owners = await b.shards.owners();
    expect(owners.filter((owner) => owner === "b")).toHaveLength(6);
    expect(owners.filter((owner) => owner === "c")).toHaveLength(6);
    await Promise.all([b, c].map(({ shards }) => shards.close()));
  });

  it("goes on where the store did not answer for a while", async () => {
    const { clock, store, join, loads, overlaps } = shardsWorld(6);
    const [a, b] = [join("a"), join("b")];
    await clock.advance(8_000);
    expect(loads()).toEqual({ a: 3, b: 3 });
    const faults = ["acquire", "renew", "release"] as const;
    for (const operation of faults) store.faults[operation] = "refuse";
    await clock.advance(3 * SHARDS_TTL_MS);
    expect(loads()).toEqual({});
    for (const operation of faults) store.faults[operation] = "ok";
    await clock.advance(15_000);
    expect(loads()).toEqual({ a: 3, b: 3 });
    await Promise.all([a.shards.close(), b.shards.close()]);
    expect(overlaps()).toBe(0);
  });

  it("knows the owners of all its shards, however many pages a list has", async () => {
    const { clock, join, store } = shardsWorld(5);
    const { list } = store;
    store.list = (query) => list({ ...query, limit: 2 });
    const [a, b] = [join("a"), join("b")];
    await clock.advance(10_000);
    const owners = await a.shards.owners();
    expect(owners.filter((owner) => owner === "a").length).toBeGreaterThanOrEqual(2);
    expect(owners.filter((owner) => owner === "b").length).toBeGreaterThanOrEqual(2);
    // A shard of before, when there were more.
    const other = await a.leases.acquire("jobs/shards/5");
    expect(await a.shards.owners()).toEqual(owners);
    await other.release();
    await Promise.all([a.shards.close(), b.shards.close()]);
    expect(await a.shards.owners()).toEqual([null, null, null, null, null]);
  });

  it("publishes a plan only when it changes, and another coordinator publishes its own", async () => {
    const { clock, join } = shardsWorld(4);
    const [a, b] = [join("a"), join("b")];
    await clock.advance(10_000);
    const tokenOf = async () => (await a.leases.get("jobs/plan"))?.token ?? 0;
    const before = await tokenOf();
    await clock.advance(60_000);
    expect(await tokenOf()).toBe(before);
    const [coordinator, other] = a.shards.coordinates ? [a, b] : [b, a];
    expect(other.shards.coordinates).toBe(false);
    await coordinator.shards.close();
    await clock.advance(5_000);
    expect(other.shards.coordinates).toBe(true);
    expect(await tokenOf()).toBeGreaterThan(before);
    expect(other.shards.held).toEqual([0, 1, 2, 3]);
    await other.shards.close();
  });

  it("ends with its client without a warning about its work", async () => {
    const warn = vi.fn();
    const { clock, join, loads } = shardsWorld(3, { logger: { ...silentLogger, warn } });
    const { leases } = join("a");
    await clock.advance(5_000);
    expect(loads()).toEqual({ a: 3 });
    await leases.close();
    await clock.advance(5_000);
    expect(loads()).toEqual({});
    expect(warn.mock.calls).toEqual([]);
  });

  it("has left when its lease as the coordinator is released, too", async () => {
    const { clock, join, store } = shardsWorld(2);
    const { release } = store;
    let open = () => {};
    const opened = new Promise<void>((resolve) => (open = resolve));
    store.release = async (requests) => {
      if (requests.some(({ resource }) => resource === "jobs/coordinator")) await opened;
      return release(requests);
    };
    const { shards, leases } = join("a");
    await clock.advance(3_000);
    expect(shards.coordinates).toBe(true);
    let hasLeft = false;
    const closing = shards.close().then(() => (hasLeft = true));
    await clock.advance(1_000);
    expect(hasLeft).toBe(false);
    open();
    await clock.advance(1_000);
    await closing;
    expect(await leases.get("jobs/coordinator")).toMatchObject({ state: "released" });
  });

  it("joins once, and not after its end", async () => {
    const { clock, join, starts } = shardsWorld(2);
    const { shards } = join("a");
    expect(shards.start()).toBe(shards);
    await clock.advance(5_000);
    expect(starts()).toBe(2);
    await shards.close();
    expect(() => shards.start()).toThrow(expect.objectContaining({ code: "CLOSED" }));
  });

  it("says at once what is wrong with its options", () => {
    const { store } = shardsWorld(1);
    const leases = new LeaseClient(store, { env: manualEnv() }, { close: undefined });
    const work: ShardWork = async () => {};
    for (const [name, options, path] of [
      ["", { count: 1, work }, "name"],
      ["x", { count: 0, work }, "count"],
      ["x", { count: 1_025, work }, "count"],
      ["x", { count: 1.5, work }, "count"],
      ["x", { count: 1, work, member: "" }, "member"],
      ["x", { count: 1, work: 1 as never }, "work"],
      ["x", { count: 1, work, pollIntervalMs: 0 }, "pollIntervalMs"],
      ["x", { count: 1, work, graceMs: -1 }, "graceMs"],
      ["x", { count: 1, work, ttlMs: 1 }, "ttlMs"],
    ] as const) {
      expect(() => shardsOver(leases, name, options)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", path }),
      );
    }
  });
});
