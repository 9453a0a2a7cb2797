import { describe, expect, it } from "vitest";
import { echo, stepped, tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import type { Logger } from "../env/index.js";
import { defineTask, type HandlerContext } from "./define.js";

const TTL_MS = 3_000;

describe("the leases of handlers that never ask for them", () => {
  it("are renewed for as long as they run, and leave no timer", async () => {
    const { tasks, clock } = tasksWorld();
    const { runs, handler } = stepped();
    const worker = tasks.work([handler], { ttlMs: TTL_MS });
    await clock.advance(10);
    const idle = clock.pendingTimers;
    const [short, long] = await tasks.enqueueAll(echo, [{ data: 1 }, { data: 2 }]);
    await clock.advance(10);
    runs[0]?.end();
    await clock.advance(10 * TTL_MS);
    expect(await tasks.get(short?.id ?? "")).toMatchObject({ state: "done", attempt: 1 });
    expect(await tasks.get(long?.id ?? "")).toMatchObject({ state: "running", crashes: 0 });
    runs[1]?.end();
    await clock.advance(10);
    expect(await tasks.get(long?.id ?? "")).toMatchObject({ state: "done", attempt: 1 });
    expect(clock.pendingTimers).toBe(idle);
    // Long before its first renewal.
    await tasks.enqueue(echo, 3);
    await clock.advance(10);
    runs[2]?.end();
    await clock.advance(10);
    expect(clock.pendingTimers).toBe(idle);
    await worker.close();
  });

  it("are lost, with a warning, when the machine was suspended for longer", async () => {
    const warnings: unknown[] = [];
    const warn = (fields: object, message: string) => warnings.push([message, fields]);
    const logger = { debug() {}, info() {}, warn, error() {} } as unknown as Logger;
    const { tasks, clock } = tasksWorld(logger);
    await tasks.enqueue(echo, null);
    const { handler } = stepped();
    tasks.work([handler], { ttlMs: TTL_MS });
    await clock.advance(10);
    clock.jumpWall(10 * TTL_MS);
    // Long before the first renewal is due.
    await clock.advance(TTL_MS / 3 - 20);
    await clock.advance(20);
    expect(warnings).toContainEqual([
      "lease lost",
      expect.objectContaining({ event: "lease_lost", reason: "expired" }),
    ]);
  });

  it.each([
    ["set back, then suspended", [-3_600_000, TTL_MS]],
    ["suspended, then set back", [TTL_MS, -3_600_000]],
    ["set forward twice", [TTL_MS / 2, TTL_MS / 2]],
  ])("are lost, and nothing is reported, when the machine was %s", async (_, jumps) => {
    const { tasks, client, clock, store } = tasksWorld();
    const sent: unknown[] = [];
    const { id } = await tasks.enqueue(echo, null);
    const { runs, handler } = stepped();
    const worker = client("a", {
      // Its renewals are never answered.
      heartbeat: () => new Promise(() => {}),
      complete: (requests) => {
        sent.push(...requests);
        return store.complete(requests);
      },
    });
    worker.work([handler], { ttlMs: 2 * TTL_MS });
    await clock.advance(10);
    for (const ms of jumps) {
      clock.jumpWall(ms);
      await clock.advance(1_000);
    }
    clock.jumpWall(TTL_MS);
    runs[0]?.end("late");
    await clock.advance(10);
    expect(sent).toEqual([]);
    expect(await tasks.get(id)).not.toMatchObject({ state: "done" });
  });

  it("are over for a handler that asks after the report", async () => {
    const { tasks, clock } = tasksWorld();
    const { id } = await tasks.enqueue(echo, null);
    const { runs, handler } = stepped();
    const worker = tasks.work([handler], { ttlMs: TTL_MS });
    await clock.advance(10);
    runs[0]?.end();
    await clock.advance(10);
    expect(await tasks.get(id)).toMatchObject({ state: "done" });
    const timers = clock.pendingTimers;
    expect(runs[0]?.context.lease.checkAlive()).toBe(false);
    expect(runs[0]?.context.lease.remainingMs()).toBe(0);
    expect(clock.pendingTimers).toBe(timers);
    await worker.close();
  });
});

describe("the lease of a handler that releases it", () => {
  type Release = (lease: HandlerContext["lease"]) => PromiseLike<void>;
  const ways: [string, Release][] = [
    ["releases", (lease) => lease.release()],
    ["disposes of", (lease) => lease[Symbol.asyncDispose]()],
    [
      "releases twice",
      async (lease) => void (await Promise.all([lease.release(), lease.release()])),
    ],
    ["leaves the block of", async (lease) => void (await using(lease))],
  ];

  async function using(own: HandlerContext["lease"]) {
    await using lease = own;
    return lease.token;
  }

  it.each(ways)("stays its worker's when it %s it and throws", async (_, release) => {
    const { tasks, clock } = tasksWorld();
    const flaky = defineTask("flaky", { maxAttempts: 2 });
    const { id } = await tasks.enqueue(flaky, null);
    const alive: boolean[] = [];
    const handler = flaky.handle(async (_data, { lease }) => {
      try {
        throw new Error("real reason");
      } finally {
        await release(lease);
        alive.push(lease.checkAlive());
      }
    });
    const worker = tasks.work([handler], { ttlMs: TTL_MS });
    await clock.advance(20_000);
    expect(alive).toEqual([true, true]);
    const error = expect.stringContaining("real reason") as string;
    expect(await tasks.get(id)).toMatchObject({ state: "dead", failures: 2, attempt: 2, error });
    await worker.close();
    await tasks.close();
    expect(clock.pendingTimers).toBe(0);
  });

  it.each(ways)("stays its worker's when it %s it and returns", async (_, release) => {
    const { tasks, clock } = tasksWorld();
    const { id } = await tasks.enqueue(echo, null);
    const handler = echo.handle(async (_data, { lease }) => {
      await release(lease);
      return "done";
    });
    const worker = tasks.work([handler], { ttlMs: TTL_MS });
    await clock.advance(10);
    expect(await tasks.get(id)).toMatchObject({ state: "done", output: "done", attempt: 1 });
    await worker.close();
  });
});

describe("what a handler sees of its task", () => {
  it("has properties of its own, as many as are typed, and takes others", async () => {
    const { tasks, clock } = tasksWorld();
    await tasks.enqueue(echo, null);
    const { runs, handler } = stepped();
    const worker = tasks.work([handler], { ttlMs: TTL_MS });
    await clock.advance(10);
    const context = runs[0]?.context ?? {};
    const names = ["task", "lease", "signal", "progress", "checkpoint", "lastCheckpoint", "log"];
    expect(Object.keys(context)).toEqual(names);
    expect(names.every((name) => name in context && Object.hasOwn(context, name))).toBe(true);
    expect("secret" in context).toBe(false);
    Object.assign(context, { started: 7 });
    expect({ ...context }).toMatchObject({ started: 7, task: { kind: "echo" } });
    runs[0]?.end();
    await worker.close();
  });
});
