/** Behaviour that the conformance suite cannot observe through the port. */
import { describe, expect, it } from "vitest";
import { manualEnv } from "../../testing/index.js";
import { memory } from "./index.js";
import { MemoryLeaseState, MemoryLeaseStore } from "./store.js";

const KEY = { namespace: "n", resource: "r" };
const REQUEST = { ...KEY, leaseId: "l", holder: "h", ttlMs: 1_000 };

describe("the memory store", () => {
  it("shares contents by name, and by source where there is no name", async () => {
    const env = manualEnv();
    const holder = async (source: ReturnType<typeof memory>) => {
      const { leases } = await source.open(env);
      const [view] = await leases.get([KEY]);
      return view?.holder ?? null;
    };
    const [named, unnamed] = [memory({ name: "store.test" }), memory()];
    for (const source of [named, unnamed]) {
      const stores = await source.open(env);
      await stores.leases.acquire([REQUEST]);
      await stores.close();
      expect(await holder(source)).toBe("h");
    }
    expect(await holder(memory({ name: "store.test" }))).toBe("h");
    expect(await holder(memory({ name: "another" }))).toBe(null);
    expect(await holder(memory({ name: "" }))).toBe(null);
    expect(await holder(memory())).toBe(null);
  });

  it("measures by the monotonic clock and shows times by the wall clock", async () => {
    const env = manualEnv({ wallMs: Date.UTC(2021, 0, 1) });
    const { leases } = await memory().open(env);
    const [granted] = await leases.acquire([REQUEST]);
    expect(granted).toMatchObject({ expiresAt: "2021-01-01T00:00:01.000Z" });
    env.clock.jumpWall(3_600_000);
    const [view] = await leases.get([KEY]);
    expect(view).toMatchObject({
      state: "live",
      remainingMs: 1_000,
      expiresAt: "2021-01-01T01:00:01.000Z",
    });
    env.clock.jumpWall(-7_200_000);
    await env.clock.advance(1_000);
    const [expired] = await leases.get([KEY]);
    expect(expired).toMatchObject({ state: "expired", expiresAt: "2020-12-31T23:00:01.000Z" });
  });

  it("rounds a holder's trust down, and a contender's wait up", async () => {
    const env = manualEnv();
    const { leases } = await memory().open(env);
    await leases.acquire([REQUEST]);
    await env.clock.advance(0.4);
    const [mine, theirs] = await leases.acquire([REQUEST, { ...REQUEST, leaseId: "other" }]);
    expect(mine).toMatchObject({ status: "acquired", remainingMs: 999 });
    expect(theirs).toMatchObject({ status: "held", remainingMs: 1_000 });
    expect(await leases.revoke([{ ...KEY, free: "atExpiry" }])).toMatchObject([
      { freeInMs: 1_000 },
    ]);
  });

  it("shows the same times while the two clocks drift apart by less than a second", async () => {
    const env = manualEnv({ wallMs: Date.UTC(2021, 0, 1) });
    const { leases } = await memory().open(env);
    await leases.acquire([REQUEST]);
    env.clock.jumpWall(999);
    expect(await leases.get([KEY])).toMatchObject([{ expiresAt: "2021-01-01T00:00:01.000Z" }]);
    env.clock.jumpWall(1);
    expect(await leases.get([KEY])).toMatchObject([{ expiresAt: "2021-01-01T00:00:02.000Z" }]);
  });

  it("collects only grants that ended before the given time, and expired waiters with them", async () => {
    const env = manualEnv();
    const state = new MemoryLeaseState(env.clock);
    const leases = new MemoryLeaseStore(state);
    await leases.acquire([REQUEST, { ...REQUEST, leaseId: "waiter", queueMs: 500 }]);
    const { waitQueue } = state.namespace("n");
    const waiting = () => waitQueue.load("r", undefined, 0).count;
    expect(waiting()).toBe(1);
    await env.clock.advance(2_000);
    expect(await leases.collect(1_000)).toBe(0);
    expect(waiting()).toBe(0);
    await env.clock.advance(1);
    expect(await leases.collect(1_000)).toBe(1);
  });
});
