import { describe, expect, it } from "vitest";
import { echo, stepped, tasksWorld } from "../../../../tests/support/tasks-world.js";
import type { Logger } from "../env/index.js";

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
