import { describe, expect, it, vi } from "vitest";
import { SHARDS_TTL_MS, shardsWorld } from "../../../../tests/support/worlds/shards-world.js";
import { silentLogger } from "../env/index.js";
import type { LeaseClient, LeaseView } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import { Counts, describeMember, reportTwin } from "./membership.js";

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

describe("the counts of members", () => {
  const memberOf = (count: number, name: string) => ({
    holder: `host-${name}`,
    metadata: JSON.stringify(describeMember(name, count)),
  });
  function othersIn(members: readonly Pick<LeaseView, "holder" | "metadata">[]) {
    const warn = vi.fn();
    const env = manualEnv({ logger: { ...silentLogger, warn } });
    const counts = new Counts({ env, holder: "a" } as unknown as LeaseClient, "jobs", 4);
    counts.compare(members as LeaseView[]);
    return warn.mock.calls.map(([{ others }]) => others);
  }

  it.each([
    ["none", null],
    ["no count", '{"member":"b"}'],
    ["no JSON", "v1"],
  ])("skip a lease whose metadata has %s", (_, metadata) => {
    expect(othersIn([{ holder: "host-b", metadata }])).toEqual([]);
    const others = [{ count: 8, members: ["c"], holders: ["host-c"] }];
    expect(othersIn([{ holder: "host-b", metadata }, memberOf(8, "c")])).toEqual([others]);
  });

  it("name five members of each other count", () => {
    const names = ["b", "c", "d", "e", "f", "g", "h"];
    const members = names.flatMap((name) => [memberOf(8, name), memberOf(4, `${name}4`)]);
    const named = names.slice(0, 5);
    const holders = named.map((name) => `host-${name}`);
    expect(othersIn([...members, memberOf(16, "z")])).toEqual([
      [
        { count: 8, members: named, holders },
        { count: 16, members: ["z"], holders: ["host-z"] },
      ],
    ]);
  });
});

describe("the report of a twin", () => {
  const TWIN = { state: "live", grantId: "1", holder: "host-1", remainingMs: 1_000 } as LeaseView;

  /** Of a member that polls every second, with answers that the test gives. */
  function reporting() {
    const warn = vi.fn();
    const env = manualEnv({ logger: { ...silentLogger, warn } });
    const get = vi.fn<() => Promise<LeaseView | null>>(async () => TWIN);
    const leaving = new AbortController();
    const state = { isJoined: false };
    const ended = reportTwin(
      { env, get } as unknown as LeaseClient,
      { name: "jobs", member: "worker", resource: "jobs/members/worker" },
      () => state.isJoined,
      () => 1_000,
      leaving.signal,
    );
    return { clock: env.clock, get, state, leaving, ended, reports: () => warn.mock.calls.length };
  }

  it("comes when it still has the lease after that would have expired", async () => {
    const { clock, leaving, ended, reports } = reporting();
    await clock.advance(2_999);
    expect(reports()).toBe(0);
    await clock.advance(1);
    expect(reports()).toBe(1);
    leaving.abort();
    await ended;
    expect(clock.pendingTimers).toBe(0);
  });

  it.each([
    ["the lease was free", async () => null],
    ["its lease had ended", async () => ({ ...TWIN, state: "expired", remainingMs: 0 }) as const],
    ["the store was unavailable", () => Promise.reject(new Error("no answer"))],
  ])("comes no earlier than two more answers after %s", async (_, otherwise) => {
    const { clock, get, leaving, ended, reports } = reporting();
    get.mockImplementationOnce(async () => TWIN).mockImplementationOnce(otherwise);
    // Read at 1 s, and not found at 3 s; read at 4 s and at 6 s.
    await clock.advance(5_999);
    expect(reports()).toBe(0);
    await clock.advance(1);
    expect(reports()).toBe(1);
    leaving.abort();
    await ended;
  });

  it("does not come of the member's own lease, which it got while the store was asked", async () => {
    const { clock, get, state, leaving, ended, reports } = reporting();
    for (let times = 0; times < 2; times += 1) {
      get.mockImplementationOnce(async () => {
        state.isJoined = true;
        return TWIN;
      });
      await clock.advance(2_000);
      state.isJoined = false;
    }
    expect(get).toHaveBeenCalledTimes(2);
    expect(reports()).toBe(0);
    leaving.abort();
    await ended;
  });

  it("asks the store nothing after the member has left", async () => {
    const { clock, get, leaving, ended } = reporting();
    await clock.advance(1_000);
    leaving.abort();
    await ended;
    expect(get).toHaveBeenCalledTimes(1);
  });

  it("does not come after the member has left, though the store is asked", async () => {
    const { clock, get, leaving, ended, reports } = reporting();
    await clock.advance(1_000);
    get.mockImplementationOnce(async () => {
      leaving.abort();
      return TWIN;
    });
    await clock.advance(2_000);
    await ended;
    expect(get).toHaveBeenCalledTimes(2);
    expect(reports()).toBe(0);
  });
});

describe("a member name", () => {
  it("that another client has is reported once, by the member that waits", async () => {
    const { clock, member, warned, loads } = world(4);
    const first = member("worker", { holder: "host-1" });
    await clock.advance(3_000);
    const second = member("worker", { holder: "host-2" });
    // Starting it again changes nothing.
    second.shards.start();
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
