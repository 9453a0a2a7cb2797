import { describe, expect, expectTypeOf, it, onTestFinished } from "vitest";
import { openPglite } from "../../../tests/support/engines/pglite.js";
import type * as browser from "./browser.js";
import type * as node from "./index.js";
import { connect, defineTask, migrate, openStores, type StoreSource } from "./index.js";
import { memory } from "./stores/memory/index.js";
import { pglite } from "./stores/postgres/index.js";
import { manualEnv } from "./testing/index.js";

describe("connect", () => {
  it("shares a named memory store, runs under a lease, and closes", async () => {
    await using a = await connect("memory:shared", { holder: "a" });
    await using b = await connect("memory:shared", { holder: "b" });
    const token = await a.run("r", (lease) => lease.token);
    expect(await b.get("r")).toMatchObject({ holder: "a", token, state: "released" });
  });

  it("takes any LeaseStore and leaves it open", async () => {
    const { leases: store } = await memory().open(manualEnv());
    const leases = await connect(store);
    await leases.close();
    expect(await store.get([{ namespace: "default", resource: "r" }])).toEqual([null]);
  });

  it.each([
    [
      "mysql://localhost",
      /source must begin with one of memory:, http:, https:, consul:, .*etcd:, .*postgres:, .*zookeeper:/,
    ],
    ["", /got an empty string: is DATABASE_URL set/],
    ["constructor:x", /source must begin/],
  ])("refuses %j", async (source, expected) => {
    await expect(connect(source)).rejects.toThrow(expected);
  });

  it("gives up within connectTimeoutMs, and closes what opens later", async () => {
    const env = manualEnv();
    const stores = await memory().open(env);
    let closed = 0;
    let open = () => {};
    const slow: StoreSource = {
      open: () =>
        new Promise((resolve) => {
          open = () => resolve({ ...stores, close: async () => void (closed += 1) });
        }),
    };
    const connecting = expect(connect(slow, { env, connectTimeoutMs: 700 })).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      outcome: "none",
    });
    await env.clock.advance(700);
    await connecting;
    open();
    await env.clock.settle();
    expect(closed).toBe(1);
  });

  it("keeps tasks elsewhere where the engine keeps leases only", async () => {
    const env = manualEnv();
    const { leases, close } = await memory().open(env);
    let closed = 0;
    const only: StoreSource = {
      open: async () => ({
        leases,
        async close() {
          closed += 1;
          await close();
        },
      }),
    };
    const refused = {
      code: "INVALID_OPTION",
      message: /keeps leases only: name a store for tasks/,
    };
    const matching = { ...refused, message: expect.stringMatching(refused.message) };
    await expect(connect(only, { tasks: only })).rejects.toMatchObject(matching);
    await expect(openStores(only)).rejects.toMatchObject(matching);
    await expect(openStores("memory:", { control: only })).rejects.toMatchObject(matching);
    // Twice: for leases and for tasks.
    expect(closed).toBe(4);
    const client = await connect(only, { env });
    expect(() => client.tasks).toThrow(refused.message);
    await client.close();
    const kept = await memory().open(env);
    const leasesOnly: StoreSource = {
      open: async () => ({ leases: kept.leases, close: kept.close }),
    };
    const both = await connect(leasesOnly, { env, tasks: "memory:" });
    expect(await both.tasks.counts()).toMatchObject({ pending: 0 });
    expect(await both.run("r", () => 1)).toBe(1);
    await both.close();
    const stores = await openStores(only, { env, control: "memory:" });
    expect(stores.leases).toBe(leases);
    expect(await stores.tasks.counts("default")).toBeDefined();
    await stores.close();
    expect(closed).toBe(6);
  });

  it("closes the store when the client cannot be made", async () => {
    const env = manualEnv();
    const stores = await memory().open(env);
    let closed = 0;
    const source = { open: async () => ({ ...stores, close: async () => void (closed += 1) }) };
    await expect(connect(source, { defaults: { ttlMs: 1 } })).rejects.toMatchObject({
      path: "ttlMs",
    });
    await expect(connect(source, { holder: "" })).rejects.toMatchObject({ path: "holder" });
    await expect(connect(source, { connectTimeoutMs: 0 })).rejects.toMatchObject({
      path: "connectTimeoutMs",
    });
    expect(closed).toBe(2);
  });

  it("collects old leases while it is open, and holds no timer afterwards", async () => {
    const env = manualEnv();
    const leases = await connect(memory(), { env });
    await leases.run("once", () => 1);
    await env.clock.advance(6 * 24 * 3_600_000);
    expect(await leases.get("once")).not.toBeNull();
    await env.clock.advance(2 * 24 * 3_600_000);
    expect(await leases.get("once")).toBeNull();
    await leases.close();
    expect(env.clock.pendingTimers).toBe(0);
  });
});

it("works on tasks of a named store", async () => {
  await using tasksClient = await connect("memory:tasks");
  const tasks = tasksClient.tasks;
  const double = defineTask<number>("double");
  const { id } = await tasks.enqueue(double, 21);
  tasks.work([double.handle((n) => 2 * n)]);
  await expect.poll(async () => (await tasks.get(id))?.output).toBe(42);
});

it("has the same types for browsers", () => {
  expectTypeOf<typeof browser>().toEqualTypeOf<typeof node>();
});

describe("migrate", () => {
  it("applies each step of a database once, and says which", async () => {
    const db = await openPglite();
    onTestFinished(() => db.close());
    const database = pglite({ db });
    const applied = await migrate(database);
    expect(applied).toContain("baseline");
    expect(await migrate(database)).toEqual([]);
  });

  it("has nothing to do where an engine keeps no tables of ours", async () => {
    expect(await migrate("memory:migrate")).toEqual([]);
    await expect(migrate("mysql://localhost/app")).rejects.toMatchObject({
      code: "INVALID_OPTION",
    });
  });
});
