import { describe, expect, it } from "vitest";
import { echo, stepped, tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import { silentLogger } from "../env/index.js";
import { InvalidOptionError } from "../lease/index.js";
import { defineTask, FinalTaskError } from "./define.js";
import type { Json, TaskStore } from "./port.js";

const TTL_MS = 3_000;

describe("Worker", () => {
  it("runs a task at once when it is enqueued, and keeps its output and attempt", async () => {
    const { tasks, clock } = tasksWorld();
    const worker = tasks.work([echo.handle((data) => ({ echo: data }))]);
    await clock.advance(10);
    const { id } = await tasks.enqueue(echo, { n: 1 });
    await clock.settle();
    await clock.settle();
    expect(await tasks.get(id)).toMatchObject({
      state: "done",
      output: { echo: { n: 1 } },
      holder: "me",
      attempts: [{ attempt: 1, holder: "me", result: "done", error: null }],
    });
    await worker.close();
    await tasks.close();
  });

  it("runs no more than `concurrency` at once, and takes the next when one ends", async () => {
    const { tasks, clock } = tasksWorld();
    await tasks.enqueueAll(
      echo,
      [1, 2, 3, 4, 5].map((data) => ({ data })),
    );
    const { runs, handler } = stepped();
    const worker = tasks.work([handler], { concurrency: 2, ttlMs: TTL_MS });
    await clock.advance(100);
    expect(runs.map(({ data }) => data)).toEqual([1, 2]);
    runs[1]?.end();
    await clock.advance(100);
    expect(runs.map(({ data }) => data)).toEqual([1, 2, 3]);
    expect(worker.running).toBe(2);
    for (const run of runs) run.end();
    await clock.advance(100);
    for (const run of runs) run.end();
    await clock.advance(100);
    for (const run of runs) run.end();
    await clock.advance(100);
    expect(await tasks.counts()).toMatchObject({ done: 5, running: 0, pending: 0 });
  });

  it("heartbeats for as long as the handler runs, and carries its progress", async () => {
    const { tasks, clock } = tasksWorld();
    const { id } = await tasks.enqueue(echo, null);
    const { runs, handler } = stepped();
    tasks.work([handler], { ttlMs: TTL_MS });
    await clock.advance(10);
    // A handler may take some of it, and pass on the rest.
    const { lease, ...rest } = { ...runs[0]?.context };
    expect(lease?.checkAlive()).toBe(true);
    rest.progress?.({ percent: 40 });
    await clock.advance(10 * TTL_MS);
    expect(await tasks.get(id)).toMatchObject({ state: "running", progress: { percent: 40 } });
    runs[0]?.end();
    await clock.advance(10);
    expect(await tasks.get(id)).toMatchObject({ state: "done", attempt: 1, crashes: 0 });
  });

  it("carries progress with the next heartbeat too if one fails", async () => {
    const { clock, client, store } = tasksWorld();
    let failures = 0;
    const heartbeat: TaskStore["heartbeat"] = async (requests) => {
      if (failures === 2 || !requests.some(({ progress }) => progress !== undefined)) {
        return store.heartbeat(requests);
      }
      failures += 1;
      const error = new Error("cut off") as never;
      return requests.map(() => ({ status: "failed", applied: "no", retryable: true, error }));
    };
    const worker = client("me", { heartbeat });
    const { id } = await worker.enqueue(echo, null);
    const { runs, handler } = stepped();
    worker.work([handler], { ttlMs: TTL_MS });
    await clock.advance(10);
    runs[0]?.context.progress({ percent: 40 });
    await clock.advance(10 * TTL_MS);
    expect(failures).toBe(2);
    expect(await worker.get(id)).toMatchObject({ state: "running", progress: { percent: 40 } });
    runs[0]?.end();
    await clock.advance(10);
  });

  it("abandons at once when the lease is lost, and reports nothing", async () => {
    const { clock, client, store } = tasksWorld();
    const cut: TaskStore["heartbeat"] = async (requests) =>
      requests.map(() => ({
        status: "failed",
        applied: "no",
        retryable: true,
        error: new Error("cut off") as never,
      }));
    const [a, b] = [client("a", { heartbeat: cut }), client("b")];
    const { id } = await a.enqueue(echo, null);
    const first = stepped();
    // One slot: taken by the handler that has not ended yet.
    a.work([first.handler], { concurrency: 1, ttlMs: TTL_MS });
    await clock.advance(10);
    const second = stepped();
    b.work([second.handler], { ttlMs: TTL_MS });
    await clock.advance(TTL_MS + 2_000);
    expect(first.runs[0]?.context.signal.reason).toMatchObject({ code: "LEASE_LOST" });
    const tokens = [first.runs[0], second.runs[0]].map((run) => run?.context.lease.token ?? 0);
    expect(tokens[1]).toBeGreaterThan(tokens[0] ?? 0);
    // The old owner ends late: its output counts nothing.
    first.runs[0]?.end("stale");
    await clock.advance(10);
    second.runs[0]?.end("fresh");
    await clock.advance(10);
    expect(await store.get({ namespace: "default", id })).toMatchObject({
      state: "done",
      output: "fresh",
      holder: "b",
      attempts: [
        { holder: "a", result: "expired" },
        { holder: "b", result: "done" },
      ],
    });
  });

  it("a worker that was paused past its lease is refused", async () => {
    const { clock, client, store } = tasksWorld();
    const sent: unknown[] = [];
    const spy: TaskStore["complete"] = async (requests) => {
      const outcomes = await store.complete(requests);
      sent.push(...outcomes);
      return outcomes;
    };
    const a = client("a", { complete: spy });
    const { id } = await a.enqueue(echo, null);
    const { runs, handler } = stepped();
    a.work([handler], { ttlMs: TTL_MS });
    await clock.advance(10);
    // The whole process stood still: its timers too, only the wall clock went on.
    clock.jumpWall(10 * TTL_MS);
    runs[0]?.end("stale");
    await clock.advance(10);
    expect(sent).toEqual([]);
    expect(await a.get(id)).not.toMatchObject({ state: "done" });
  });

  it("repeats a completion whose answer was lost, and it counts once", async () => {
    const { clock, client, store } = tasksWorld();
    let cuts = 3;
    const complete: TaskStore["complete"] = async (requests) => {
      const outcomes = await store.complete(requests);
      if (cuts-- <= 0) return outcomes;
      return requests.map(() => ({
        status: "failed",
        applied: "maybe",
        retryable: true,
        error: new Error("cut after apply") as never,
      }));
    };
    const tasks = client("me", { complete });
    const { id } = await tasks.enqueue(echo, null);
    const worker = tasks.work([echo.handle(() => "once")], { ttlMs: TTL_MS });
    await clock.advance(2_000);
    expect(worker.running).toBe(0);
    expect(await tasks.get(id)).toMatchObject({ state: "done", output: "once", attempt: 1 });
  });

  it("repeats a completion that has not arrived, under the same grant", async () => {
    const { clock, client, store } = tasksWorld();
    let lost = 3;
    const complete: TaskStore["complete"] = async (requests) => {
      if (lost-- <= 0) return store.complete(requests);
      return requests.map(() => ({
        status: "failed",
        applied: "no",
        retryable: true,
        error: new Error("cut on its way") as never,
      }));
    };
    const tasks = client("me", { complete });
    const { id } = await tasks.enqueue(echo, null);
    tasks.work([echo.handle(() => "once")], { ttlMs: TTL_MS });
    await clock.advance(2_000);
    expect(await tasks.get(id)).toMatchObject({ state: "done", attempt: 1 });
  });

  it("does not begin a task whose lease is over when the claim is answered", async () => {
    const { clock, client, store } = tasksWorld();
    const claim: TaskStore["claim"] = async (request) => {
      const outcome = await store.claim(request);
      await new Promise((resolve) => clock.timer(TTL_MS, () => resolve(null)));
      return outcome;
    };
    const tasks = client("me", { claim });
    await tasks.enqueue(echo, null);
    const { runs, handler } = stepped();
    tasks.work([handler], { ttlMs: TTL_MS });
    await clock.advance(TTL_MS + 10);
    expect(runs).toEqual([]);
  });

  it("does not call a task lost that its own unacknowledged completion has ended", async () => {
    const warnings: string[] = [];
    const warn = (_fields: object, message: string) => void warnings.push(message);
    const { clock, client, store } = tasksWorld({ ...silentLogger, warn });
    let cut = true;
    const complete: TaskStore["complete"] = async (requests) => {
      const outcomes = await store.complete(requests);
      if (!cut) return outcomes;
      return requests.map(() => ({
        status: "failed",
        applied: "maybe",
        retryable: true,
        error: new Error("cut after apply") as never,
      }));
    };
    let refused = 0;
    const heartbeat: TaskStore["heartbeat"] = async (requests) => {
      const outcomes = await store.heartbeat(requests);
      refused += outcomes.filter(({ status }) => status === "refused").length;
      return outcomes;
    };
    const tasks = client("me", { complete, heartbeat });
    const { id } = await tasks.enqueue(echo, null);
    const { runs, handler } = stepped();
    const worker = tasks.work([handler], { ttlMs: TTL_MS });
    await clock.advance(10);
    runs[0]?.end();
    await clock.advance(TTL_MS / 2);
    expect(refused).toBe(1);
    cut = false;
    await clock.advance(TTL_MS / 2 - 100);
    expect(worker.running).toBe(0);
    expect(warnings.filter((message) => !/not acknowledged yet/.test(message))).toEqual([]);
    expect(await tasks.get(id)).toMatchObject({ state: "done", attempt: 1 });
    await tasks.close();
  });

  it("reports an output that the store will never take as a final failure", async () => {
    const { clock, client } = tasksWorld();
    let tries = 0;
    const complete: TaskStore["complete"] = async (requests) => {
      tries += 1;
      return requests.map(() => ({
        status: "failed",
        applied: "no",
        retryable: false,
        error: new InvalidOptionError("the request", "is too large"),
      }));
    };
    const tasks = client("me", { complete });
    const { id } = await tasks.enqueue(echo, null);
    const worker = tasks.work([echo.handle(() => "large")], { ttlMs: TTL_MS });
    await clock.advance(2 * TTL_MS);
    expect(tries).toBe(1);
    expect(worker.running).toBe(0);
    expect(await tasks.get(id)).toMatchObject({
      state: "dead",
      attempt: 1,
      failures: 1,
      error: "the output cannot be stored: the request is too large",
    });
  });

  it("repeats a claim whose answer was lost, and gets the same tasks", async () => {
    const { clock, client, store } = tasksWorld();
    let cuts = 2;
    const claim: TaskStore["claim"] = async (request) => {
      const outcome = await store.claim(request);
      if (cuts-- <= 0) return outcome;
      return {
        status: "failed",
        applied: "maybe",
        retryable: true,
        error: new Error("cut after apply") as never,
      };
    };
    const tasks = client("me", { claim });
    const { id } = await tasks.enqueue(echo, null);
    tasks.work([echo.handle(() => "ok")], { ttlMs: TTL_MS });
    await clock.advance(2_000);
    expect(await tasks.get(id)).toMatchObject({ state: "done", attempt: 1, crashes: 0 });
  });

  it("retries failures after a backoff until maxAttempts, and gives up at once on a final one", async () => {
    const { tasks, clock } = tasksWorld();
    const flaky = defineTask("flaky", { maxAttempts: 3, backoff: { firstMs: 1_000 } });
    const { id } = await tasks.enqueue(flaky, null);
    const hopeless = await tasks.enqueue(echo, null);
    let runs = 0;
    tasks.work([
      flaky.handle(() => {
        runs += 1;
        throw new Error(`failure ${runs}`);
      }),
      echo.handle(() => {
        throw new FinalTaskError("no such user");
      }),
    ]);
    await clock.advance(400);
    expect(runs).toBe(1);
    await clock.advance(60_000);
    expect(runs).toBe(3);
    const task = await tasks.get(id);
    expect(task).toMatchObject({ state: "dead", failures: 3 });
    expect(task?.attempts.map(({ error }) => error?.split("\n")[0])).toEqual([
      "Error: failure 1",
      "Error: failure 2",
      "Error: failure 3",
    ]);
    expect(await tasks.get(hopeless.id)).toMatchObject({ state: "dead", failures: 1 });
  });

  it("tells the handler of progress that cannot be kept, and keeps the other tasks", async () => {
    const { tasks, clock } = tasksWorld();
    const [bad, good] = await tasks.enqueueAll(echo, [{ data: "bad" }, { data: "good" }]);
    const { runs, handler } = stepped();
    tasks.work([handler], { ttlMs: TTL_MS });
    await clock.advance(10);
    const refusal = (path: string) => expect.objectContaining({ code: "INVALID_OPTION", path });
    const circle: unknown[] = [];
    circle.push(circle);
    for (const progress of [1n, circle, "x".repeat(64 * 1024), "é".repeat(33 * 1024)]) {
      const call = () => runs[0]?.context.progress(progress as Json);
      expect(call).toThrow(refusal(progress === circle ? "progress.0" : "progress"));
    }
    const mutable = { done: 1 };
    runs[0]?.context.progress(mutable);
    Object.assign(mutable, { done: 2n });
    await clock.advance(2 * TTL_MS);
    expect(await tasks.get(bad?.id ?? "")).toMatchObject({
      state: "running",
      attempt: 1,
      progress: { done: 1 },
    });
    expect(await tasks.get(good?.id ?? "")).toMatchObject({ state: "running", attempt: 1 });
  });

  it("reports whatever a handler throws, in bounded length", async () => {
    const { tasks, clock } = tasksWorld();
    const [bare, long] = await tasks.enqueueAll(echo, [{ data: "bare" }, { data: "long" }]);
    const worker = tasks.work([
      echo.handle((data) => {
        throw data === "bare" ? Object.create(null) : "x".repeat(5_000_000);
      }),
    ]);
    await clock.advance(10);
    expect(worker.running).toBe(0);
    expect(await tasks.get(bare?.id ?? "")).toMatchObject({
      state: "pending",
      failures: 1,
      error: "{}",
    });
    expect((await tasks.get(long?.id ?? ""))?.error).toHaveLength(64 * 1024);
  });

  it("stops the handler of a cancelled task", async () => {
    const { tasks, clock } = tasksWorld();
    const { id } = await tasks.enqueue(echo, null);
    const { runs, handler } = stepped();
    tasks.work([handler], { ttlMs: TTL_MS });
    await clock.advance(10);
    await tasks.cancel(id);
    await clock.advance(TTL_MS / 2);
    expect(runs[0]?.context.signal.reason).toMatchObject({ code: "LEASE_LOST", reason: "revoked" });
    runs[0]?.end();
    await clock.advance(10);
    expect(await tasks.get(id)).toMatchObject({ state: "cancelled", output: null });
  });
});
