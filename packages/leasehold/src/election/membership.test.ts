import { describe, expect, it, vi } from "vitest";
import { SHARDS_TTL_MS, shardsWorld } from "../../../../tests/support/shards-world.js";
import { silentLogger } from "../env/index.js";

const COUNTS = "other members have another count: some shards are worked on by no member";
const TWICE = "another client has the name of this member: it gets no shards";

function world(count: number) {
  const warn = vi.fn();
  const w = shardsWorld(count, { logger: { ...silentLogger, warn } });
  const warned = (message: string) =>
    warn.mock.calls.filter(([, text]) => text === message).map(([fields]) => fields);
  const member = (name: string, own: { count?: number; holder?: string } = {}) =>
    w.join(name, undefined, undefined, own);
  return { ...w, member, warned };
}

describe("members of one group with different counts", () => {
  it("warn on both sides, once per change, with both counts and the holders", async () => {
    const { clock, member, warned } = world(4);
    const a = member("a");
    await clock.advance(5_000);
    expect(a.shards.coordinates).toBe(true);
    const b = member("b", { count: 8, holder: "host-b" });
    await clock.advance(20_000);
    const seenByA = {
      name: "jobs",
      count: 4,
      holder: "a",
      others: [{ count: 8, members: ["b"], holders: ["host-b"] }],
    };
    const seenByB = {
      name: "jobs",
      count: 8,
      holder: "host-b",
      others: [{ count: 4, members: ["a"], holders: ["a"] }],
    };
    const inOrder = (all: { count: number }[]) => all.sort((one, other) => one.count - other.count);
    expect(inOrder(warned(COUNTS))).toEqual([seenByA, seenByB]);
    await b.shards.close();
    await clock.advance(5_000);
    const c = member("c", { count: 8 });
    await clock.advance(5_000);
    expect(warned(COUNTS)).toHaveLength(4);
    // It leaves, and returns as it was.
    await c.shards.close();
    await clock.advance(5_000);
    const returned = member("c", { count: 8 });
    await clock.advance(5_000);
    expect(warned(COUNTS)).toHaveLength(6);
    await Promise.all([a, returned].map(({ shards }) => shards.close()));
    expect(clock.pendingTimers).toBe(0);
  });

  it("do not warn of a plan that an earlier group has left", async () => {
    const { clock, member, warned, loads } = world(4);
    const a = member("a");
    await clock.advance(5_000);
    await a.shards.close();
    const b = member("b", { count: 8 });
    await clock.advance(5_000);
    expect(loads()).toEqual({ b: 8 });
    expect(warned(COUNTS)).toEqual([]);
    await b.shards.close();
  });
});

describe("a member name", () => {
  it("that another client has is reported once, by the member that waits", async () => {
    const { clock, member, warned, loads } = world(4);
    const first = member("worker", { holder: "host-1" });
    await clock.advance(3_000);
    const second = member("worker", { holder: "host-2" });
    await clock.advance(10 * SHARDS_TTL_MS);
    expect(loads()).toEqual({ worker: 4 });
    expect(warned(TWICE)).toEqual([{ name: "jobs", member: "worker", holder: "host-1" }]);
    await first.shards.close();
    await clock.advance(5_000);
    expect(second.shards.held).toHaveLength(4);
    await second.shards.close();
    expect(clock.pendingTimers).toBe(0);
  });

  it("that another client gets after many terms of the first is reported as soon", async () => {
    const { clock, member, store, warned } = world(4);
    const first = member("worker", { holder: "host-1" });
    await clock.advance(3_000);
    const others = ["host-2", "host-3"].map((holder) => member("worker", { holder }));
    await clock.advance(100 * SHARDS_TTL_MS);
    expect(warned(TWICE)).toHaveLength(2);
    await store.inner.revoke([
      { namespace: "default", resource: "jobs/members/worker", free: "now" },
    ]);
    await clock.advance(10 * SHARDS_TTL_MS);
    // One of the others has the name now, and two wait for it.
    expect(warned(TWICE)).toHaveLength(4);
    for (const { shards } of [first, ...others]) await shards.close();
  });

  it("of a predecessor that died is not reported", async () => {
    const { clock, member, warned } = world(4);
    const first = member("worker", { holder: "host-1" });
    await clock.advance(3_000);
    first.cut();
    const second = member("worker", { holder: "host-2" });
    await clock.advance(10 * SHARDS_TTL_MS);
    expect(second.shards.held).toHaveLength(4);
    expect(warned(TWICE)).toEqual([]);
    await second.shards.close();
  });

  it("is reported again when a third client has got it", async () => {
    const { clock, member, warned } = world(4);
    const first = member("worker", { holder: "host-1" });
    await clock.advance(3_000);
    const third = member("worker", { holder: "host-3" });
    await clock.advance(1_000);
    const second = member("worker", { holder: "host-2" });
    await clock.advance(10 * SHARDS_TTL_MS);
    await first.shards.close();
    await clock.advance(10 * SHARDS_TTL_MS);
    expect(third.shards.held).toHaveLength(4);
    expect(warned(TWICE)).toEqual([
      { name: "jobs", member: "worker", holder: "host-1" },
      { name: "jobs", member: "worker", holder: "host-1" },
      { name: "jobs", member: "worker", holder: "host-3" },
    ]);
    for (const { shards } of [second, third]) await shards.close();
    expect(clock.pendingTimers).toBe(0);
  });
});
