/** What an operator sees of elections: figures and logs. And what ends when they end. */
import { expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { recordedTelemetry } from "../../../../tests/support/worlds/recorded-telemetry.js";
import { SHARDS_TTL_MS, shardsWorld } from "../../../../tests/support/worlds/shards-world.js";
import { LeaseClient, StoreUnavailableError } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import { electorOver } from "./elector.js";
import { type Shards, shardsOver } from "./shards.js";
import { singletonOver } from "./singleton.js";

function open() {
  const logged: (readonly [level: string, message: string, fields: object])[] = [];
  const log = (level: string) => (fields: object, message: string) =>
    void logged.push([level, message, fields]);
  const logger = {
    debug: log("debug"),
    info: log("info"),
    warn: log("warn"),
    error: log("error"),
  };
  const env = manualEnv({ logger });
  const store = faultyStore(env);
  const { telemetry, valuesOf } = recordedTelemetry();
  const own = { ...env, telemetry };
  const leases = new LeaseClient(store, { env: own, holder: "a" }, { close: undefined });
  return { clock: env.clock, store, leases, logged, valuesOf };
}

const untilAborted = ({ signal }: { readonly signal: AbortSignal }) =>
  new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));

it("counts each term, and who leads now", async () => {
  const { clock, leases, valuesOf } = open();
  const stop = new AbortController();
  const leading = electorOver(leases, "cluster").lead(untilAborted, { signal: stop.signal });
  await clock.advance(100);
  const labels = { of: "elector" };
  expect(valuesOf("terms")).toEqual([["cluster", 1]]);
  expect(valuesOf("leasehold.election.leading")).toEqual([[labels, 1]]);
  stop.abort();
  await clock.settle();
  await leading;
  expect(valuesOf("terms")).toEqual([["cluster", 1]]);
  expect(valuesOf("leasehold.election.leading")).toEqual([
    [labels, 1],
    [labels, -1],
  ]);
});

it("counts no leader after work that throws", async () => {
  const { clock, leases, valuesOf } = open();
  const failing = async () => {
    throw new Error("broken");
  };
  const leading = electorOver(leases, "cluster").lead(failing);
  const thrown = expect(leading).rejects.toThrow("broken");
  const singleton = singletonOver(leases, "job", failing).start();
  await clock.advance(3_000);
  await thrown;
  await singleton.close();
  const changes = valuesOf("leasehold.election.leading");
  for (const of of ["elector", "singleton"]) {
    const own = changes.filter(([labels]) => JSON.stringify(labels) === JSON.stringify({ of }));
    expect(own.length).toBeGreaterThan(0);
    expect(own.reduce((sum, [, by]) => sum + by, 0)).toBe(0);
  }
});

it("counts the terms of a singleton as such", async () => {
  const { clock, leases, valuesOf } = open();
  const singleton = singletonOver(leases, "job", untilAborted).start();
  await clock.advance(100);
  expect(valuesOf("leasehold.election.leading")).toEqual([[{ of: "singleton" }, 1]]);
  await singleton.close();
});

it("logs work of a singleton that ends by itself or fails, with its resource", async () => {
  const { clock, leases, logged } = open();
  const failure = new Error("broken");
  let starts = 0;
  const work = async () => {
    starts += 1;
    if (starts > 1) throw failure;
  };
  const singleton = singletonOver(leases, "job", work).start();
  await clock.advance(3_000);
  expect(logged.slice(0, 2)).toEqual([
    ["warn", "the work ended by itself", { resource: "job" }],
    ["error", "the work failed", { err: failure, resource: "job" }],
  ]);
  await singleton.close();
});

it("logs nothing of work that ends because it was asked to", async () => {
  const { clock, leases, logged } = open();
  const singleton = singletonOver(leases, "job", untilAborted).start();
  await clock.advance(100);
  await singleton.close();
  expect(logged).toEqual([]);
});

it("logs work that does not stop, with its lease", async () => {
  const { clock, leases, logged } = open();
  let finish = () => {};
  const work = () => new Promise<void>((resolve) => (finish = resolve));
  const singleton = singletonOver(leases, "job", work).start();
  await clock.advance(100);
  const grantId = (await leases.get("job"))?.grantId;
  const closing = singleton[Symbol.asyncDispose]();
  await clock.advance(5_000);
  await closing;
  const err = expect.objectContaining({ code: "STILL_RUNNING" });
  expect(logged).toEqual([["error", "the work does not stop", { err, resource: "job", grantId }]]);
  finish();
  await clock.settle();
});

it("logs each plan of shards, and a member that coordinates no longer", async () => {
  const { clock, store, leases, logged } = open();
  const shards = shardsOver(leases, "jobs", { count: 2, work: (_, lease) => untilAborted(lease) });
  shards.start();
  await clock.advance(3_000);
  expect(logged).toEqual([["info", "shards allocated", { name: "jobs", members: 1 }]]);
  const failure = new TypeError("a mistake of the store");
  store.list = () => Promise.reject(failure);
  await clock.advance(3_000);
  expect(shards.coordinates).toBe(false);
  expect(logged.slice(1)).toEqual([
    ["error", "this member no longer coordinates", { err: failure, name: "jobs" }],
  ]);
  // It works on, by the last plan.
  expect(shards.held).toEqual([0, 1]);
  await shards.close();
});

it("logs a store that fails, and goes on when it answers again", async () => {
  const { clock, store, leases, logged } = open();
  const { list, get } = store;
  const down = () => Promise.reject(new StoreUnavailableError("down", { outcome: "none" }));
  [store.list, store.get] = [down, down];
  const shards = shardsOver(leases, "jobs", { count: 2, work: (_, lease) => untilAborted(lease) });
  shards.start();
  await clock.advance(3_000);
  const fields = { err: expect.objectContaining({ code: "STORE_UNAVAILABLE" }), name: "jobs" };
  expect(logged).toContainEqual(["warn", "could not plan the shards", fields]);
  expect(logged).toContainEqual(["warn", "could not read the plan of the shards", fields]);
  [store.list, store.get] = [list, get];
  await clock.advance(5_000);
  expect(shards.held).toEqual([0, 1]);
  await shards.close();
});

it.each<[string, (shards: Shards, leases: LeaseClient) => Promise<void>]>([
  ["it is closed", (shards) => shards.close()],
  ["its client is closed", (_, leases) => leases.close()],
])("logs nothing of a plan that a member has begun when %s", async (_, close) => {
  const { clock, store, leases, logged } = open();
  const { acquire } = store;
  let isPlanned = false;
  let publish = () => {};
  const published = new Promise<void>((resolve) => (publish = resolve));
  store.acquire = async (requests) => {
    if (requests.some(({ resource }) => resource === "jobs/plan")) {
      isPlanned = true;
      await published;
    }
    return acquire(requests);
  };
  const shards = shardsOver(leases, "jobs", { count: 2, work: (_, lease) => untilAborted(lease) });
  shards.start();
  await clock.advance(2_000);
  expect(isPlanned).toBe(true);
  const closing = close(shards, leases);
  await clock.settle();
  publish();
  await closing;
  await clock.settle();
  expect(logged).toEqual([]);
});

it("leaves a group of shards when it is disposed of, whether or not its work stops", async () => {
  const { clock, join, store } = shardsWorld(2);
  const gates: (() => void)[] = [];
  const a = join("a");
  await clock.advance(3_000);
  await a.shards[Symbol.asyncDispose]();
  expect(a.shards.held).toEqual([]);
  const b = join("b", () => new Promise((resolve) => gates.push(resolve)), 1_000);
  await clock.advance(3_000);
  const disposed = b.shards[Symbol.asyncDispose]();
  await clock.advance(SHARDS_TTL_MS);
  await disposed;
  const { items } = await store.list({ namespace: "default", prefix: "jobs/members/" });
  expect(items.map(({ state }) => state)).toEqual(["released", "released"]);
  for (const gate of gates) gate();
  await clock.settle();
});
