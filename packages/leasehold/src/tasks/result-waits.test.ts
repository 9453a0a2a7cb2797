import { expect, it } from "vitest";
import { tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import { nextTurn } from "../env/index.js";
import { StoreUnavailableError } from "../lease/index.js";
import { defineTask } from "./define.js";
import type { TaskKey, TaskStore } from "./port.js";

const greet = defineTask<string, string>("greet");
const greeting = greet.handle((name) => `Hello, ${name}!`);

/** A store whose reads of results are counted. */
function counting(store: TaskStore) {
  const reads: (readonly TaskKey[])[] = [];
  const results: TaskStore["results"] = (keys) => {
    reads.push(keys);
    return store.results(keys);
  };
  return { reads, over: { results } satisfies Partial<TaskStore> };
}

it("resolves to the output of a task that ends later, and of one that has ended", async () => {
  const { client, clock } = tasksWorld();
  const [program, worker] = [client("program"), client("worker")];
  const handle = await program.enqueue(greet, "Ada");
  const result: Promise<string> = handle.result();
  await clock.settle();
  worker.work([greeting]);
  expect(await result).toBe("Hello, Ada!");
  expect(await handle.result()).toBe("Hello, Ada!");
  expect(await worker.result<string>(handle.id)).toBe("Hello, Ada!");
  await Promise.all([program.close(), worker.close()]);
});

it("waits for the task that has the dedupeKey", async () => {
  const { tasks } = tasksWorld();
  const first = await tasks.enqueue(greet, "Ada", { dedupeKey: "ada" });
  const second = await tasks.enqueue(greet, "Joan", { dedupeKey: "ada" });
  expect(second).toEqual({ id: first.id, status: "duplicate" });
  tasks.work([greeting]);
  expect(await second.result()).toBe("Hello, Ada!");
  await tasks.close();
});

it("reads all tasks of a process together, at first and when they end", async () => {
  const { client, store, clock } = tasksWorld();
  const { reads, over } = counting(store);
  const program = client("program", over);
  const handles = await program.enqueueAll(
    greet,
    Array.from({ length: 50 }, (_, n) => ({ data: `${n}` })),
  );
  const results = Promise.all(handles.flatMap((handle) => [handle.result(), handle.result()]));
  await clock.settle();
  expect(reads.map(({ length }) => length)).toEqual([50]);
  const worker = client("worker");
  worker.work([greeting], { concurrency: 50 });
  expect(await results).toHaveLength(100);
  // By notification: no clock has moved. The ends of one batch are read together.
  expect(reads.length).toBeLessThan(10);
  await Promise.all([program.close(), worker.close()]);
});

/** A subscription without a notification. */
async function* silent() {
  yield { type: "resync" } as const;
  await new Promise(() => {});
}

it("pauses longer and longer while there is no notification", async () => {
  const { client, store, clock } = tasksWorld();
  const { reads, over } = counting(store);
  const program = client("program", { ...over, watchResults: silent });
  const handle = await program.enqueue(greet, "Ada");
  const result = handle.result();
  await clock.advance(60_000);
  expect(reads.length).toBeGreaterThan(8);
  expect(reads.length).toBeLessThan(20);
  const worker = client("worker");
  worker.work([greeting]);
  await clock.advance(15_000);
  expect(await result).toBe("Hello, Ada!");
  await worker.close();
});

it("pauses shortly again for another caller who waits for the task", async () => {
  const { client, store, clock } = tasksWorld();
  const { reads, over } = counting(store);
  const program = client("program", { ...over, watchResults: silent });
  const { id } = await program.enqueue(greet, "Ada");
  const ended = () => program.result(id).catch((error: unknown) => error);
  const first = ended();
  await clock.advance(60_000);
  const second = ended();
  await clock.settle();
  const before = reads.length;
  // The first pauses are of 50, 100 and 200 ms; by now, the next would be of seconds.
  await clock.advance(600);
  expect(reads.length - before).toBeGreaterThanOrEqual(3);
  await store.cancel([{ namespace: "default", id }]);
  await clock.advance(15_000);
  const cancelled = { code: "TASK_FAILED", state: "cancelled" };
  expect(await Promise.all([first, second])).toMatchObject([cancelled, cancelled]);
});

it("reads again what is notified while it reads", async () => {
  const { client, store } = tasksWorld();
  const { id } = await client("other").enqueue(greet, "Ada");
  let reads = 0;
  const results: TaskStore["results"] = async (keys) => {
    reads += 1;
    const before = await store.results(keys);
    // The answer that is on its way is out of date once the task has ended.
    if (reads === 1) {
      await store.cancel(keys);
      for (let turn = 0; turn < 5; turn += 1) await nextTurn();
    }
    return before;
  };
  const program = client("program", { results });
  const refused = program.result(id).catch((error: unknown) => error);
  // No clock has moved.
  expect(await refused).toMatchObject({ code: "TASK_FAILED", state: "cancelled" });
  expect(reads).toBe(2);
  await program.close();
});

it("reads again after a subscription that broke", async () => {
  const { client, store, clock } = tasksWorld();
  let breakWatch = () => {};
  const watchResults: TaskStore["watchResults"] = async function* (namespace, { signal }) {
    const events = store.watchResults(namespace, { signal })[Symbol.asyncIterator]();
    const broken = new Promise<never>((_, reject) => {
      breakWatch = () => reject(new Error("connection lost"));
    });
    for (;;) {
      const next = await Promise.race([events.next(), broken]);
      if (next.done) return;
      yield next.value;
    }
  };
  const { reads, over } = counting(store);
  const program = client("program", { ...over, watchResults });
  const handle = await program.enqueue(greet, "Ada");
  const refused = handle.result().catch((error: unknown) => error);
  await clock.advance(50_000);
  breakWatch();
  await clock.settle();
  const before = reads.length;
  await store.cancel([{ namespace: "default", id: handle.id }]);
  // Sooner than the pause between two reads, which is 10 s by now.
  await clock.advance(1_600);
  expect(reads.length).toBeGreaterThan(before);
  expect(await refused).toMatchObject({ code: "TASK_FAILED" });
  await program.close();
});

it("goes on while the store does not answer, and tells of it when the time is over", async () => {
  const { client, store, clock } = tasksWorld();
  let isAway = true;
  const away = new StoreUnavailableError("connection refused", { outcome: "none" });
  const results: TaskStore["results"] = async (keys) => {
    if (isAway) throw away;
    return store.results(keys);
  };
  const program = client("program", { results });
  const { id } = await program.enqueue(greet, "Ada");
  const short = program.result(id, { timeoutMs: 3_000 }).catch((error: unknown) => error);
  const long = program.result(id, { timeoutMs: 600_000 });
  await clock.advance(5_000);
  expect(await short).toMatchObject({ code: "TIMED_OUT", timeoutMs: 3_000, cause: away });
  isAway = false;
  program.work([greeting]);
  await clock.advance(15_000);
  expect(await long).toBe("Hello, Ada!");
  await program.close();
});

it("passes on an error that a repetition would only meet again", async () => {
  const { client } = tasksWorld();
  const bug = new TypeError("a bug");
  const program = client("program", { results: () => Promise.reject(bug) });
  const { id } = await program.enqueue(greet, "Ada");
  expect(await program.result(id).catch((error: unknown) => error)).toBe(bug);
  await program.close();
});

it("reads once, however short its time is", async () => {
  const { tasks, clock } = tasksWorld();
  const handle = await tasks.enqueue(greet, "Ada");
  const early = handle.result({ timeoutMs: 0 }).catch((error: unknown) => error);
  await clock.advance(1);
  expect(await early).toMatchObject({ code: "TIMED_OUT", timeoutMs: 0 });
  tasks.work([greeting]);
  await handle.result();
  const late = handle.result({ timeoutMs: 0 });
  await clock.advance(1);
  expect(await late).toBe("Hello, Ada!");
  await tasks.close();
});

it("waits for a read that takes longer than its time", async () => {
  const { client, store, clock } = tasksWorld();
  let answer = () => {};
  const asked = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const results: TaskStore["results"] = async (keys) => {
    await asked;
    return store.results(keys);
  };
  const program = client("program", { results });
  const handle = await program.enqueue(greet, "Ada");
  await program.cancel(handle.id);
  const late = handle.result({ timeoutMs: 0 }).catch((error: unknown) => error);
  await clock.advance(1_000);
  answer();
  expect(await late).toMatchObject({ code: "TASK_FAILED", state: "cancelled" });
  await program.close();
});

it("ends with its signal, with its client, and with both", async () => {
  const { tasks } = tasksWorld();
  const handle = await tasks.enqueue(greet, "Ada");
  const leaving = new AbortController();
  const { signal } = leaving;
  const [aborted, other] = [{ signal }, {}].map((options) =>
    handle.result(options).catch((error: unknown) => error),
  );
  leaving.abort("leaving");
  expect(await aborted).toBe("leaving");
  expect(await handle.result({ signal }).catch((error: unknown) => error)).toBe("leaving");
  await tasks.close();
  expect(await other).toMatchObject({ code: "CLOSED" });
  await expect(handle.result()).rejects.toMatchObject({ code: "CLOSED" });
});

it("stops its subscription a while after the last wait", async () => {
  const { client, store, clock } = tasksWorld();
  const watches = { begun: 0, ended: 0 };
  const watchResults: TaskStore["watchResults"] = async function* (namespace, options) {
    watches.begun += 1;
    yield* store.watchResults(namespace, options);
    watches.ended += 1;
  };
  const program = client("program", { watchResults });
  const { id } = await program.enqueue(greet, "Ada");
  for (const _ of [1, 2, 3]) {
    const late = program.result(id, { timeoutMs: 5_000 }).catch(() => "late");
    await clock.advance(6_000);
    expect(await late).toBe("late");
  }
  expect(watches).toEqual({ begun: 1, ended: 0 });
  await clock.advance(10_000);
  expect(watches).toEqual({ begun: 1, ended: 1 });
  const again = program.result(id).catch(() => "closed");
  await clock.settle();
  expect(watches.begun).toBe(2);
  await program.close();
  expect(await again).toBe("closed");
  expect(watches.ended).toBe(2);
});

it("refuses wrong arguments by name", async () => {
  const { tasks } = tasksWorld();
  const { id } = await tasks.enqueue(greet, "Ada");
  for (const [given, path] of [
    [{ timeoutMs: -1 }, "timeoutMs"],
    [{ timeoutMs: "5s" }, "timeoutMs"],
    [{ signal: {} }, "signal"],
    [{ timeout: 5 }, "timeout"],
  ] as const) {
    await expect(tasks.result(id, given as object)).rejects.toMatchObject({ path });
  }
  await expect(tasks.result("")).rejects.toMatchObject({ code: "INVALID_OPTION", path: "id" });
  await tasks.close();
});
