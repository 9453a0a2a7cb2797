/** What members make of a plan, and what is in it. */
import { expect, it, vi } from "vitest";
import { SHARDS_TTL_MS, shardsWorld } from "../../../../tests/support/worlds/shards-world.js";
import { LeaseClient } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import { markOf } from "./leadership.js";
import { encodePlan, MOST_MEMBERS, type Plan, readPlan, shortName } from "./plan.js";
import { shardsOver } from "./shards.js";

async function publish(leases: LeaseClient, plan: Plan) {
  const lease = await leases.acquire("jobs/plan", { metadata: encodePlan(plan) });
  await lease.release();
}

it("marks the leases of coordinator, members and shards for those who list them", async () => {
  const { clock, join } = shardsWorld(1);
  const { leases, shards } = join("a");
  await clock.advance(3_000);
  const { items } = await leases.list({ prefix: "jobs/", states: ["live"] });
  expect(items.map((view) => [view.resource, markOf(view)])).toEqual([
    ["jobs/coordinator", "coordinator"],
    ["jobs/members/a", "member"],
    ["jobs/shards/0", "shard"],
  ]);
  await shards.close();
});

it("publishes the plan of a new coordinator, even if it is the same, and ignores older ones", async () => {
  const { clock, join, working, starts } = shardsWorld(4);
  const [a, b] = [join("a"), join("b")];
  await clock.advance(10_000);
  const planOf = async () => (await readPlan(a.leases, "jobs/plan"))!;
  const before = await planOf();
  const [workingBefore, startsBefore] = [new Map(working), starts()];
  await a.leases.revoke("jobs/coordinator", { free: "now" });
  await clock.advance(5_000);
  const { allocation, term } = await planOf();
  expect(allocation).toEqual(before.allocation);
  expect(term).toBeGreaterThan(before.term);
  const all = allocation.map(() => shortName("a"));
  await publish(a.leases, { term: before.term, allocation: all });
  await clock.advance(5_000);
  expect(await planOf()).toEqual({ allocation, term });
  expect(working).toEqual(workingBefore);
  expect(starts()).toBe(startsBefore);
  await Promise.all([a.shards.close(), b.shards.close()]);
});

it("asks for the lease of each plan with the TTL of all others: a dead coordinator blocks no longer", async () => {
  const { clock, join, store } = shardsWorld(2);
  const asked = vi.spyOn(store, "acquire");
  const { shards } = join("a");
  await clock.advance(3_000);
  await shards.close();
  const requests = asked.mock.calls.flatMap(([batch]) => batch);
  const plans = requests.filter(({ resource }) => resource === "jobs/plan");
  expect(plans.length).toBeGreaterThan(0);
  for (const { ttlMs } of requests) expect(ttlMs).toBe(SHARDS_TTL_MS);
});

it("moves the shards of a member that dies when its lease expires, however seldom members are counted", async () => {
  const { clock, join, loads } = shardsWorld(4, {}, { pollIntervalMs: 600_000 });
  const a = join("a");
  await clock.advance(100);
  const b = join("b");
  // The coordinator counts it at last.
  await clock.advance(1_200_000);
  expect(loads()).toEqual({ a: 2, b: 2 });
  b.cut();
  await clock.advance(2 * SHARDS_TTL_MS);
  expect(a.shards.held).toEqual([0, 1, 2, 3]);
  await a.shards.close();
});

it("moves only the shards of a member that leaves, whichever it is", async () => {
  const { clock, join, working, loads } = shardsWorld(12);
  const [a, b, c] = [join("a"), join("b"), join("c")];
  await clock.advance(10_000);
  expect(loads()).toEqual({ a: 4, b: 4, c: 4 });
  const staying = [...working].filter(([, member]) => member !== "a");
  await a.shards.close();
  await clock.advance(5_000);
  expect(loads()).toEqual({ b: 6, c: 6 });
  expect([...working]).toEqual(expect.arrayContaining(staying));
  await Promise.all([b.shards.close(), c.shards.close()]);
});

it("moves shards as soon as a plan is published, where the store notifies of that, without a poll", async () => {
  const { clock, join, store, loads } = shardsWorld(4, {}, { pollIntervalMs: 600_000 });
  const [a, b] = [join("a"), join("b")];
  await clock.advance(100);
  expect(loads()).toEqual({ a: 2, b: 2 });
  const env = manualEnv();
  const coordinator = new LeaseClient(store, { env, holder: "c" }, { close: undefined });
  const before = (await readPlan(coordinator, "jobs/plan"))!;
  const allocation = before.allocation.map(() => shortName("b"));
  await publish(coordinator, { term: before.term + 1, allocation });
  await clock.settle();
  expect(loads()).toEqual({ b: 4 });
  await Promise.all([a.shards.close(), b.shards.close()]);
});

it("works on no shard beyond its own count, whatever the plan says", async () => {
  const { clock, join, working } = shardsWorld(2);
  const { leases, shards } = join("a");
  await clock.advance(3_000);
  // Of a coordinator that counts more shards.
  await publish(leases, {
    term: 1_000,
    allocation: Array.from({ length: 3 }, () => shortName("a")),
  });
  await clock.advance(3_000);
  expect([...working.keys()]).toEqual([0, 1]);
  await shards.close();
});

it("gives each shard to a member, however many members there are", async () => {
  const { clock, join } = shardsWorld(MOST_MEMBERS + 1);
  const { leases, shards } = join("a");
  const more = Array.from({ length: MOST_MEMBERS + 5 }, (_, at) => `jobs/members/m${at}`);
  const options = { ttlMs: 60_000, autoRenew: false };
  await Promise.all(more.map((member) => leases.acquire(member, options)));
  await clock.advance(3_000);
  const plan = await readPlan(leases, "jobs/plan");
  expect(plan?.allocation).not.toContain(null);
  expect(new Set(plan?.allocation).size).toBe(MOST_MEMBERS);
  await shards.close();
});

it("joins again after the loss of its own lease, but only when the work on its shards has ended", async () => {
  const { clock, join, working, overlaps } = shardsWorld(2);
  const gates: (() => void)[] = [];
  const { leases, shards } = join("a", () => new Promise((open) => gates.push(open)), 1_000);
  await clock.advance(3_000);
  expect(shards.held).toEqual([0, 1]);
  await leases.revoke("jobs/members/a", { free: "now" });
  await clock.advance(10 * SHARDS_TTL_MS);
  expect(gates).toHaveLength(2);
  expect(await leases.get("jobs/members/a")).not.toMatchObject({ state: "live" });
  for (const open of gates.splice(0)) open();
  await clock.advance(5_000);
  expect(await leases.get("jobs/members/a")).toMatchObject({ state: "live" });
  expect([...working.keys()].sort()).toEqual([0, 1]);
  expect(overlaps()).toBe(0);
  const closing = shards.close();
  await clock.settle();
  for (const open of gates) open();
  await closing;
});

it("leaves only when the work on its shards has drained, so others still count it until then", async () => {
  const { clock, join } = shardsWorld(2);
  const gates: (() => void)[] = [];
  const { leases, shards } = join("a", () => new Promise((open) => gates.push(open)), 4_000);
  await clock.advance(3_000);
  const closing = shards.close();
  await clock.advance(2_000);
  for (const resource of ["jobs/members/a", "jobs/shards/0", "jobs/shards/1"]) {
    expect(await leases.get(resource)).toMatchObject({ resource, state: "live" });
  }
  for (const open of gates) open();
  await closing;
  expect(await leases.get("jobs/members/a")).toMatchObject({ state: "released" });
});

it("leaves when its time for the work on its shards is over, and does not hold its own lease until it expires", async () => {
  const { clock, join } = shardsWorld(1);
  const { leases, shards } = join("a", () => new Promise(() => {}), 1_000);
  await clock.advance(3_000);
  const closing = shards.close().catch((error: unknown) => error);
  await clock.advance(1_000);
  expect(await closing).toMatchObject({ code: "STILL_RUNNING" });
  expect(await leases.get("jobs/members/a")).toMatchObject({ state: "released" });
  expect(await leases.get("jobs/shards/0")).toMatchObject({ state: "live" });
});

it("accepts a poll interval of more than a minute", async () => {
  const { store } = shardsWorld(1);
  const leases = new LeaseClient(store, { env: manualEnv() }, { close: undefined });
  const options = { count: 1, work: async () => {}, pollIntervalMs: 120_000 };
  expect(() => shardsOver(leases, "jobs", options)).not.toThrow();
});
