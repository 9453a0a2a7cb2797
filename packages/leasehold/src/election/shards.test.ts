import { describe, expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faulty-store.js";
import { LeaseClient, type LeaseStore } from "../core/index.js";
import { manualEnv } from "../testing/index.js";
import { type ShardWork, shardsOver } from "./shards.js";

const TTL_MS = 3_000;

function world(count: number) {
  const env = manualEnv();
  const store = faultyStore(env);
  /** Of each shard: who works on it now. */
  const working = new Map<number, string>();
  let overlaps = 0;
  let starts = 0;
  const join = (member: string, drain: () => Promise<void> = async () => {}, graceMs = 60_000) => {
    let isCut = false;
    const unlessCut =
      <Args extends unknown[], T>(call: (...args: Args) => Promise<T>) =>
      (...args: Args) =>
        isCut ? new Promise<never>(() => {}) : call(...args);
    const { acquire, renew, release, get, list } = store;
    const own: LeaseStore = {
      ...store,
      acquire: unlessCut(acquire),
      renew: unlessCut(renew),
      release: unlessCut(release),
      get: unlessCut(get),
      list: unlessCut(list),
    };
    const leases = new LeaseClient(own, { env, holder: member }, { close: undefined });
    const work: ShardWork = async (shard, lease) => {
      starts += 1;
      if (working.has(shard)) overlaps += 1;
      working.set(shard, member);
      await new Promise<void>((resolve) => {
        lease.signal.addEventListener("abort", () => resolve());
      });
      await drain();
      working.delete(shard);
    };
    const shards = shardsOver(leases, "jobs", { count, work, ttlMs: TTL_MS, graceMs }).start();
    /** Nothing of its own arrives any more. */
    const cut = () => {
      isCut = true;
    };
    return { leases, shards, cut };
  };
  const loads = () => {
    const sums: Record<string, number> = {};
    for (const member of working.values()) sums[member] = (sums[member] ?? 0) + 1;
    return sums;
  };
  return {
    clock: env.clock,
    store,
    join,
    loads,
    working,
    overlaps: () => overlaps,
    starts: () => starts,
  };
}

describe("Shards", () => {
  it("spreads shards over those that join, and moves few", async () => {
    const { clock, join, loads, working, overlaps, starts } = world(10);
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
    const { clock, join, loads, working, overlaps } = world(4);
    const gates: (() => void)[] = [];
    const a = join("a", () => new Promise((resolve) => gates.push(resolve)));
    await clock.advance(3_000);
    const b = join("b");
    await clock.advance(10_000);
    // The work was asked to stop but has not ended: the shard is still a's.
    expect(loads()).toEqual({ a: 4 });
    expect(gates).toHaveLength(2);
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
    const { clock, join, loads, working, store } = world(4);
    const gates: (() => void)[] = [];
    const a = join("a", () => new Promise((resolve) => gates.push(resolve)), 2_000);
    await clock.advance(3_000);
    const b = join("b");
    await clock.advance(2_500);
    expect(gates).toHaveLength(2);
    // Within the grace, and as long as the store may think that a has it.
    expect(loads()).toEqual({ a: 4 });
    await clock.advance(2_000 + TTL_MS + 1_000);
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

  it("gives the shards of a dead member to others within its ttl and a look", async () => {
    const { clock, join, loads } = world(12);
    const a = join("a");
    await clock.advance(2_000);
    const [b, c] = [join("b"), join("c")];
    await clock.advance(8_000);
    expect(loads()).toEqual({ a: 4, b: 4, c: 4 });
    // It coordinates, too.
    expect(a.shards.coordinates).toBe(true);
    a.cut();
    // The ttl of the coordinator's lease, a look of the next one, and a look of the heirs.
    await clock.advance(TTL_MS + 1_100 + 1_100 + 100);
    const owners = await b.shards.owners();
    expect(owners.filter((owner) => owner === "b")).toHaveLength(6);
    expect(owners.filter((owner) => owner === "c")).toHaveLength(6);
    await Promise.all([b, c].map(({ shards }) => shards.close()));
  });

  it("goes on where the store did not answer for a while", async () => {
    const { clock, store, join, loads, overlaps } = world(6);
    const [a, b] = [join("a"), join("b")];
    await clock.advance(8_000);
    expect(loads()).toEqual({ a: 3, b: 3 });
    const faults = ["acquire", "renew", "release"] as const;
    for (const operation of faults) store.faults[operation] = "refuse";
    await clock.advance(3 * TTL_MS);
    expect(loads()).toEqual({});
    for (const operation of faults) store.faults[operation] = "ok";
    await clock.advance(15_000);
    expect(loads()).toEqual({ a: 3, b: 3 });
    await Promise.all([a.shards.close(), b.shards.close()]);
    expect(overlaps()).toBe(0);
  });

  it("works on 1,024 shards with 16 members, of which one dies and one joins", async () => {
    const { clock, join, loads, working, overlaps } = world(1_024);
    const members = Array.from({ length: 16 }, (_, at) => join(`member-${at}`));
    await clock.advance(10_000);
    expect(Object.values(loads())).toEqual(Array.from({ length: 16 }, () => 64));
    const before = new Map(working);
    members[5]?.cut();
    await clock.advance(TTL_MS + 3_000);
    const owners = await members[0]!.shards.owners();
    expect(owners.every((owner) => owner !== null && owner !== "member-5")).toBe(true);
    const moved = owners.filter((owner, shard) => owner !== before.get(shard));
    expect(moved.length).toBeLessThanOrEqual(Math.ceil(1_024 / 16));
    members.push(join("late"));
    await clock.advance(10_000);
    expect(Object.values(loads()).every((load) => load === 64)).toBe(true);
    await Promise.all(members.filter((_, at) => at !== 5).map(({ shards }) => shards.close()));
    expect(overlaps()).toBe(0);
  });

  it("says at once what is wrong with its options", () => {
    const { store } = world(1);
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
