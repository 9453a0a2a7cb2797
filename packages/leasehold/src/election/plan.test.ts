import { expect, it } from "vitest";
import { LeaseClient } from "../lease/index.js";
import { MemoryLeaseState, MemoryLeaseStore } from "../stores/memory/store.js";
import { manualEnv } from "../testing/index.js";
import { encodePlan, MOST_MEMBERS, MOST_SHARDS, readPlan, shortName } from "./plan.js";

function open() {
  const env = manualEnv();
  const store = new MemoryLeaseStore(new MemoryLeaseState(env.clock));
  const leases = new LeaseClient(store, { env }, { close: undefined });
  const publish = async (metadata?: Record<string, string>) => {
    const lease = await leases.acquire("plan", metadata ? { metadata } : {});
    await lease.release();
  };
  return { leases, publish };
}

it("is read as it was published, with shards that have no member", async () => {
  const { leases, publish } = open();
  const [a, b] = [shortName("a"), shortName("a member with a long name".repeat(9))];
  expect(a).toMatch(/^[0-9a-f]{10}$/);
  expect(a).not.toBe(b);
  const plan = { term: 7, allocation: [a, null, b, a] };
  await publish(encodePlan(plan));
  expect(await readPlan(leases, "plan")).toEqual(plan);
  const none = { term: 8, allocation: [null, null] };
  await publish(encodePlan(none));
  expect(await readPlan(leases, "plan")).toEqual(none);
});

it("fits into a lease with the most shards and members", async () => {
  const { leases, publish } = open();
  const names = Array.from({ length: MOST_MEMBERS }, (_, at) => shortName(`member-${at}`));
  const allocation = Array.from({ length: MOST_SHARDS }, (_, at) => names[at % MOST_MEMBERS]!);
  await publish(encodePlan({ term: 1, allocation }));
  expect(await readPlan(leases, "plan")).toEqual({ term: 1, allocation });
});

it("is none while nothing was published, or something else", async () => {
  const { leases, publish } = open();
  expect(await readPlan(leases, "plan")).toBeNull();
  await publish();
  expect(await readPlan(leases, "plan")).toBeNull();
  await publish({ term: "1", members: "" });
  expect(await readPlan(leases, "plan")).toBeNull();
  await publish({ members: "", shards: btoa("a") });
  expect(await readPlan(leases, "plan")).toBeNull();
  await publish({ term: "1", shards: btoa("a") });
  expect(await readPlan(leases, "plan")).toBeNull();
});
