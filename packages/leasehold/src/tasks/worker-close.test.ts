import { describe, expect, it, vi } from "vitest";
import { echo, stepped, tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import { silentLogger } from "../env/index.js";
import { connect } from "../index.js";
import { memory } from "../stores/memory/index.js";
import { manualEnv } from "../testing/index.js";
import type { TaskStore } from "./port.js";

const TTL_MS = 3_000;

describe("close", () => {
  it("lets handlers end, claims nothing more, and requeues what it cannot finish", async () => {
    const error = vi.fn();
    const { tasks, clock } = tasksWorld({ ...silentLogger, error });
    const [quick, stuck, waiting] = await tasks.enqueueAll(echo, [
      { data: "quick" },
      { data: "stuck" },
      { data: "waiting" },
    ]);
    const { runs, handler } = stepped();
    const worker = tasks.work([handler], { concurrency: 2, ttlMs: TTL_MS });
    await clock.advance(10);
    const closing = worker.close();
    await clock.advance(4_000);
    runs[0]?.end();
    await clock.advance(999);
    expect(runs[1]?.context.signal.aborted).toBe(false);
    await clock.advance(1);
    expect(runs[1]?.context.signal.reason).toMatchObject({ code: "CLOSED" });
    await clock.advance(500);
    await closing;
    const fields = { handlers: 1, graceMs: 5_000 };
    expect(error.mock.calls).toEqual([[fields, "the work does not stop"]]);
    expect(await tasks.get(quick?.id ?? "")).toMatchObject({ state: "done" });
    expect(await tasks.get(stuck?.id ?? "")).toMatchObject({
      state: "pending",
      failures: 0,
      crashes: 0,
      attempts: [{ result: "returned" }],
    });
    expect(await tasks.get(waiting?.id ?? "")).toMatchObject({ state: "pending", attempt: 0 });
    expect(runs).toHaveLength(2);
    await tasks.close();
    expect(clock.pendingTimers).toBe(0);
  });

  it("requeues a task whose handler stops by throwing after the abort: it has not failed", async () => {
    const { tasks, clock } = tasksWorld();
    const { id } = await tasks.enqueue(echo, null);
    const { runs, handler } = stepped();
    const worker = tasks.work([handler], { ttlMs: TTL_MS, graceMs: 0 });
    await clock.advance(10);
    const closing = worker.close();
    await clock.advance(1);
    runs[0]?.fail(new Error("stopped"));
    await clock.advance(10);
    await closing;
    expect(await tasks.get(id)).toMatchObject({ state: "pending", failures: 0 });
    await tasks.close();
  });

  it("takes the output of a handler that returns soon after its signal", async () => {
    const { tasks, clock } = tasksWorld();
    const { id } = await tasks.enqueue(echo, "kept");
    const { runs, handler } = stepped();
    const worker = tasks.work([handler], { ttlMs: TTL_MS, graceMs: 0 });
    await clock.advance(10);
    const closing = worker.close();
    await clock.advance(1);
    expect(runs[0]?.context.signal.aborted).toBe(true);
    await clock.advance(400);
    expect(await tasks.get(id)).toMatchObject({ state: "running" });
    runs[0]?.end();
    await clock.advance(10);
    await closing;
    expect(await tasks.get(id)).toMatchObject({ state: "done", attempt: 1 });
    await tasks.close();
  });

  it("of a client keeps its store open until the last report and requeue are taken", async () => {
    const env = manualEnv({ logger: silentLogger });
    const source = memory();
    const leasehold = await connect(source, { env, holder: "a" });
    const reader = await connect(source, { env, holder: "b" });
    const { runs, handler } = stepped();
    leasehold.tasks.work([handler], { ttlMs: TTL_MS, graceMs: 1_000 });
    const [slow, stuck] = await leasehold.tasks.enqueueAll(echo, [{ data: 1 }, { data: 2 }]);
    await env.clock.advance(10);
    expect(runs).toHaveLength(2);
    const closing = leasehold.close();
    await env.clock.advance(500);
    // Handlers may use leases until they have ended.
    const lease = await leasehold.tryAcquire("printer");
    expect(lease?.checkAlive()).toBe(true);
    await lease?.release();
    runs[0]?.end("in time");
    await env.clock.advance(1_500);
    await closing;
    expect(await reader.tasks.get(slow?.id ?? "")).toMatchObject({
      state: "done",
      output: "in time",
    });
    expect(await reader.tasks.get(stuck?.id ?? "")).toMatchObject({
      state: "pending",
      crashes: 0,
      attempts: [{ result: "returned" }],
    });
    await reader.close();
    expect(env.clock.pendingTimers).toBe(0);
  });

  it("is forgotten by the client", async () => {
    const { tasks, clock } = tasksWorld();
    const [early, late] = [tasks.work([stepped().handler]), tasks.work([stepped().handler])];
    await clock.advance(10);
    await early.close();
    const closes = [vi.spyOn(early, "close"), vi.spyOn(late, "close")];
    await tasks.close();
    expect(closes.map((close) => close.mock.calls.length)).toEqual([0, 1]);
  });

  it("does not wait long for a store that takes nothing back", async () => {
    const { client, clock } = tasksWorld();
    const tasks = client("me", { requeue: () => new Promise(() => {}) });
    await tasks.enqueue(echo, null);
    const { handler, runs } = stepped();
    const worker = tasks.work([handler], { graceMs: 1_000 });
    await clock.advance(10);
    let closed = false;
    void worker.close().then(() => {
      closed = true;
    });
    await clock.advance(4_000);
    expect(runs).toHaveLength(1);
    expect(closed).toBe(true);
  });

  it("is at once while the worker waits to repeat a failed claim", async () => {
    const { client, clock } = tasksWorld();
    const tasks = client("me", { claim: () => Promise.reject(new Error("down")) });
    const worker = tasks.work([stepped().handler]);
    // By now it waits for seconds between two claims.
    await clock.advance(60_000);
    let closed = false;
    void worker.close().then(() => {
      closed = true;
    });
    await clock.settle();
    expect(closed).toBe(true);
    await tasks.close();
    expect(clock.pendingTimers).toBe(0);
  });

  it("requeues tasks that a claim brings only then", async () => {
    const { client, clock, store } = tasksWorld();
    let answer = () => {};
    const claim: TaskStore["claim"] = async (request) => {
      const outcome = await store.claim(request);
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      return outcome;
    };
    const tasks = client("me", { claim });
    const { id } = await tasks.enqueue(echo, null);
    const { handler, runs } = stepped();
    const worker = tasks.work([handler]);
    await clock.settle();
    const closed = worker.close();
    answer();
    await closed;
    expect(runs).toEqual([]);
    expect(await tasks.get(id)).toMatchObject({
      state: "pending",
      failures: 0,
      crashes: 0,
      attempts: [{ result: "returned" }],
    });
    await tasks.close();
  });

  it("happens at the end of the block of `await using`", async () => {
    const { tasks, clock } = tasksWorld();
    const { handler, runs } = stepped();
    {
      await using worker = tasks.work([handler]);
      await clock.settle();
      expect(worker.running).toBe(0);
    }
    await tasks.enqueue(echo, null);
    await clock.advance(10_000);
    expect(runs).toEqual([]);
    await tasks.close();
  });
});
