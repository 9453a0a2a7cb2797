import { expect, it } from "vitest";
import { echo, stepped, tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import { StoreUnavailableError } from "../lease/index.js";
import { defineTask, FinalTaskError } from "./define.js";
import type { TaskStore } from "./port.js";

const HOUR_MS = 3_600_000;

/** Whether it is settled yet. */
function watched<T>(promise: Promise<T>) {
  const seen = { settled: false, promise };
  promise.then(
    () => (seen.settled = true),
    () => (seen.settled = true),
  );
  return seen;
}

it("resolves at once where there is nothing to do", async () => {
  const { tasks, clock } = tasksWorld();
  await tasks.enqueue(echo, 1, { scheduledAt: new Date(clock.wall() + HOUR_MS) });
  await tasks.enqueue(echo, 1, { queue: "other" });
  const worker = tasks.work([echo.handle(() => "done")]);
  expect(await worker.drain()).toEqual({ dead: 0 });
  await tasks.close();
});

it("waits for what is due, and for what runs elsewhere", async () => {
  const { client, clock } = tasksWorld();
  const [here, elsewhere] = [client("here"), client("elsewhere")];
  const { runs, handler } = stepped();
  await here.enqueue(echo, "slow");
  elsewhere.work([handler]);
  await clock.advance(10);
  expect(runs).toHaveLength(1);
  await here.enqueueAll(
    echo,
    Array.from({ length: 100 }, (_, n) => ({ data: n })),
  );
  let handled = 0;
  const worker = here.work([echo.handle(() => (handled += 1))]);
  const drain = watched(worker.drain());
  for (const { end } of runs.slice(1)) end();
  await clock.advance(5_000);
  expect(drain.settled).toBe(false);
  // The other worker took up to seven more.
  for (const { end } of runs) end();
  await clock.advance(5_000);
  expect(await drain.promise).toEqual({ dead: 0 });
  expect(await here.counts()).toMatchObject({ pending: 0, running: 0, done: 101 });
  expect(handled).toBeGreaterThan(90);
  await Promise.all([here.close(), elsewhere.close()]);
});

it("reads nothing while tasks run here", async () => {
  const { client, store, clock } = tasksWorld();
  let reads = 0;
  const stats: TaskStore["stats"] = (query) => {
    reads += 1;
    return store.stats(query);
  };
  const tasks = client("me", { stats });
  const { runs, handler } = stepped();
  await tasks.enqueue(echo, 1);
  const worker = tasks.work([handler]);
  await clock.advance(10);
  const drain = watched(worker.drain());
  await clock.advance(60_000);
  expect([drain.settled, reads]).toEqual([false, 0]);
  runs[0]?.end();
  expect(await drain.promise).toEqual({ dead: 0 });
  expect(reads).toBe(1);
  await tasks.close();
});

it("waits for no task of a later version than its handlers take", async () => {
  const { client, clock } = tasksWorld();
  const [first, second] = [client("first"), client("second")];
  const later = defineTask("echo", { version: 2 });
  await second.enqueue(later, 1);
  await first.enqueue(echo, 1);
  for (const [start, done] of [
    [() => first.work([echo.handle(() => "done")]), 1],
    [() => second.work([later.handle(() => "done")]), 2],
  ] as const) {
    const drain = watched(start().drain());
    await clock.advance(5_000);
    expect(drain.settled).toBe(true);
    expect(await first.counts()).toMatchObject({ pending: 2 - done, done });
  }
  await Promise.all([first.close(), second.close()]);
});

it("counts the tasks that die meanwhile, and waits for no retry of later", async () => {
  const { tasks, clock } = tasksWorld();
  const handler = echo.handle((data) => {
    if (data === "for good") throw new FinalTaskError("no");
    if (data === "again") throw new Error("not yet");
    return data;
  });
  const worker = tasks.work([handler]);
  await tasks.enqueue(echo, "for good");
  await clock.advance(100);
  expect(await tasks.counts()).toMatchObject({ dead: 1 });
  await tasks.enqueueAll(echo, [{ data: "for good" }, { data: "again", maxAttempts: 1 }]);
  await tasks.enqueue(echo, "again", { backoff: { firstMs: HOUR_MS } });
  const drain = worker.drain();
  await clock.advance(1_000);
  expect(await drain).toEqual({ dead: 2 });
  expect(await tasks.counts()).toMatchObject({ dead: 3, pending: 1, running: 0 });
  await tasks.close();
});

it("ends with its time, its signal and its worker", async () => {
  const { client, store, clock } = tasksWorld();
  let isAway = false;
  const away = new StoreUnavailableError("connection refused", { outcome: "none" });
  const stats: TaskStore["stats"] = async (query) => {
    if (isAway) throw away;
    return store.stats(query);
  };
  const tasks = client("me", { stats });
  const { handler } = stepped();
  await tasks.enqueue(echo, 1);
  const worker = tasks.work([handler], { graceMs: 0 });
  await clock.advance(10);
  const late = worker.drain({ timeoutMs: 5_000 }).catch((error: unknown) => error);
  await clock.advance(5_000);
  expect(await late).toMatchObject({ code: "TIMED_OUT", timeoutMs: 5_000 });
  const leaving = new AbortController();
  const aborted = worker.drain(leaving).catch((error: unknown) => error);
  const closed = worker.drain().catch((error: unknown) => error);
  leaving.abort("leaving");
  expect(await aborted).toBe("leaving");
  isAway = true;
  const idle = client("idle", { stats }).work([echo.handle(() => 1)], { queues: ["idle"] });
  const unknown = idle.drain({ timeoutMs: 5_000 }).catch((error: unknown) => error);
  await clock.advance(5_000);
  expect(await unknown).toMatchObject({ code: "TIMED_OUT", cause: away });
  const closing = Promise.all([worker.close(), idle.close()]);
  await clock.advance(5_000);
  await closing;
  expect(await closed).toMatchObject({ code: "CLOSED" });
  await expect(worker.drain()).rejects.toMatchObject({ code: "CLOSED" });
  await expect(worker.drain({ timeoutMs: -1 })).rejects.toMatchObject({ path: "timeoutMs" });
  await expect(worker.drain({ timeout: 1 } as object)).rejects.toMatchObject({ path: "timeout" });
});
