import { getEventListeners } from "node:events";
import { expect, test, vi } from "vitest";
import { readyWorld } from "../../../../tests/support/worlds/ready-world.js";
import { silentLogger } from "../env/index.js";
import type { Failed, TaskStore, TaskWatchEvent } from "./port.js";

/** A subscription whose events a test sends one by one. */
function events() {
  const sent: ((event: TaskWatchEvent) => void)[] = [];
  let reject = (_: unknown) => {};
  const next = () =>
    new Promise<TaskWatchEvent>((resolve, fail) => {
      sent.push(resolve);
      reject = fail;
    });
  const watch: TaskStore["watch"] = async function* (_namespace, { signal }) {
    signal.addEventListener("abort", () => reject(signal.reason));
    for (;;) yield await next();
  };
  return { watch, send: (event: TaskWatchEvent) => sent.pop()?.(event) };
}

test("a claim that does not wait neither subscribes nor polls", async () => {
  const { clock, ready, store, asked, task, request } = await readyWorld();
  await store.enqueue([task()]);
  expect(await ready.claim(request({ waitMs: 0 }))).toMatchObject({ tasks: [{ attempt: 1 }] });
  expect(await ready.claim(request({ waitMs: 0 }))).toMatchObject({ tasks: [] });
  expect(asked).toEqual({ claims: 2, watches: 0 });
  expect(clock.pendingTimers).toBe(0);
});

test("looks for tasks from time to time while anybody waits, and not for longer", async () => {
  const { clock, ready, wait } = await readyWorld();
  const [short, long] = [wait({ waitMs: 100 }), wait({ waitMs: 4_000 })];
  await clock.advance(3_000);
  expect([short.got, long.got]).toEqual([0, null]);
  expect(clock.pendingTimers).toBe(2);
  await clock.advance(3_000);
  expect(long.got).toBe(0);
  expect(clock.pendingTimers).toBe(0);
  await ready.close();
});

test("a claim after close does not wait", async () => {
  const { clock, ready, asked, wait } = await readyWorld();
  await ready.close();
  const late = wait();
  await clock.settle();
  expect(late.got).toBe(0);
  expect(asked).toEqual({ claims: 1, watches: 0 });
  expect(clock.pendingTimers).toBe(0);
});

test("a store that can wait itself gets the wait with the claim", async () => {
  const { clock, ready, store, task, request } = await readyWorld({ remoteWait: true });
  await store.enqueue([task()]);
  const claim = vi.spyOn(store, "claim");
  const asked = request({ waitMs: 2_000 });
  const options = { timeoutMs: 5_000 };
  expect(await ready.claim(asked, options)).toMatchObject({ tasks: [{ attempt: 1 }] });
  expect(claim.mock.calls).toEqual([[asked, options]]);
  expect(clock.pendingTimers).toBe(0);
});

test("a claim that got less than it could take wakes no other waiter", async () => {
  const { clock, ready, store, asked, task, wait } = await readyWorld();
  const waits = [wait({ limit: 2 }), wait({ limit: 2 })];
  await clock.advance(100);
  asked.claims = 0;
  await store.enqueue([task()]);
  await clock.settle();
  expect(waits.map(({ got }) => got).filter((got) => got !== null)).toEqual([1]);
  expect(asked.claims).toBe(1);
  await ready.close();
});

test("waiters for the same queues and kinds share a notification, in whatever order they name them", async () => {
  const { clock, ready, store, asked, task, wait } = await readyWorld();
  wait({ queues: ["queue", "other"], kinds: ["a", "b"] });
  wait({ queues: ["other", "queue"], kinds: ["b", "a"] });
  await clock.advance(100);
  asked.claims = 0;
  // None of them takes it.
  await store.enqueue([task({ kind: "c" })]);
  await clock.settle();
  expect(asked.claims).toBe(1);
  await ready.close();
});

test("waiters for different queues or kinds each get their own notification", async () => {
  const { clock, ready, store, task, wait } = await readyWorld();
  // These wait longer, and would be woken first.
  const longer = [wait({ kinds: ["a"] }), wait({ queues: ["first"] })];
  await clock.advance(100);
  const [later, other] = [wait({ kinds: ["b"] }), wait({ queues: ["second"] })];
  await clock.advance(100);
  await store.enqueue([task({ kind: "b" })]);
  await clock.settle();
  expect(later.got).toBe(1);
  await store.enqueue([task({ queue: "second" })]);
  await clock.settle();
  expect(other.got).toBe(1);
  expect(longer.map(({ got }) => got)).toEqual([null, null]);
  await ready.close();
});

test("a notification for another queue wakes no waiter", async () => {
  const { clock, ready, store, asked, task, wait } = await readyWorld();
  wait();
  await clock.advance(100);
  asked.claims = 0;
  await store.enqueue([task({ queue: "other" })]);
  await clock.settle();
  expect(asked.claims).toBe(0);
  await ready.close();
});

test("a subscription that starts over wakes a waiter of every group", async () => {
  const { clock, ready, store, task, wait } = await readyWorld();
  const { watch, send } = events();
  store.watch = watch;
  const waits = [wait(), wait({ queues: ["other"] })];
  await clock.settle();
  await store.enqueue([task(), task({ queue: "other" })]);
  await clock.settle();
  expect(waits.map(({ got }) => got)).toEqual([null, null]);
  send({ type: "resync" });
  await clock.settle();
  expect(waits.map(({ got }) => got)).toEqual([1, 1]);
  await ready.close();
});

test("a wait ends in time, though each claim meets a notification for other workers", async () => {
  const { clock, ready, store, asked, task, wait } = await readyWorld();
  const claim = store.claim;
  store.claim = async (...args) => {
    const outcome = await claim(...args);
    await store.enqueue([task({ kind: "other" })]);
    await new Promise<void>((resolve) => clock.timer(100, resolve));
    return outcome;
  };
  await clock.advance(10_000);
  const short = wait({ kinds: ["a"], waitMs: 500 });
  await clock.advance(499);
  expect(short.got).toBe(null);
  await clock.advance(1);
  expect(short.got).toBe(0);
  expect(asked.claims).toBe(5);
  await ready.close();
});

test("a wait that ends with its time or its signal claims no more, and passes nothing on", async () => {
  const { clock, ready, asked, wait } = await readyWorld({ watch: "poll" });
  const gone = new AbortController();
  const waits = [wait({ waitMs: 100 }), wait({}, gone.signal), wait()];
  await clock.settle();
  await clock.advance(100);
  gone.abort();
  await clock.settle();
  expect(waits.map(({ got }) => got)).toEqual([0, 0, null]);
  expect(asked.claims).toBe(3);
  await ready.close();
});

test("a caller that goes, or a close, while its claim is on its way ends it without a wait", async () => {
  for (const end of ["abort", "close"] as const) {
    const { clock, ready, store, asked, wait } = await readyWorld();
    const gone = new AbortController();
    const claim = store.claim;
    store.claim = async (...args) => {
      const outcome = await claim(...args);
      if (end === "abort") gone.abort();
      else await ready.close();
      return outcome;
    };
    const waiting = wait({}, gone.signal);
    await clock.settle();
    expect(waiting.got).toBe(0);
    expect(asked.claims).toBe(1);
    await ready.close();
  }
});

test("a notification that finds the whole group claiming costs one claim more", async () => {
  const { clock, ready, store, asked, task, wait } = await readyWorld();
  const claim = store.claim.bind(store);
  for (let round = 0; round < 3; round += 1) {
    let isFirst = true;
    store.claim = async (...args) => {
      const outcome = await claim(...args);
      if (!isFirst) return outcome;
      isFirst = false;
      // Of a kind that the caller does not take, while its empty claim is on its way back.
      await store.enqueue([task({ kind: "other" })]);
      await clock.settle();
      return outcome;
    };
    asked.claims = 0;
    wait({ kinds: ["a"], waitMs: 500 });
    await clock.advance(100);
    expect(asked.claims).toBe(2);
    await clock.advance(500);
  }
  await ready.close();
});

test("a notification that has woken a caller which goes before it claims wakes the next one", async () => {
  const { clock, store, asked, task, wait } = await readyWorld();
  const gone = new AbortController();
  let send = () => {};
  store.watch = async function* () {
    await new Promise<void>((resolve) => {
      send = resolve;
    });
    yield { type: "ready", queue: "queue" };
    // The first waiter is awake, but has not run yet.
    gone.abort();
    await new Promise(() => {});
  };
  const [first, second] = [wait({}, gone.signal), wait()];
  await clock.settle();
  await store.enqueue([task()]);
  asked.claims = 0;
  send();
  await clock.settle();
  expect([first.got, second.got]).toEqual([0, 1]);
  expect(asked.claims).toBe(1);
});

test("keeps nothing on a signal that lives longer than the wait", async () => {
  const { clock, ready, wait } = await readyWorld();
  const { signal } = new AbortController();
  const waiting = wait({ waitMs: 100 }, signal);
  await clock.settle();
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  await clock.advance(100);
  expect(waiting.got).toBe(0);
  expect(getEventListeners(signal, "abort")).toEqual([]);
  await ready.close();
});

test("neither the poll nor the next subscription keeps the process running", async () => {
  const { clock, ready, store, wait } = await readyWorld();
  store.watch = () => {
    throw new Error("broken");
  };
  const timer = vi.spyOn(clock, "timer");
  const waiting = wait({ waitMs: 100 });
  await clock.advance(100);
  expect(waiting.got).toBe(0);
  // The wait itself does: its caller expects an answer.
  const foreground = timer.mock.calls.filter(([, , options]) => !options?.background);
  expect(foreground.map(([delayMs]) => delayMs)).toEqual([100]);
  expect(timer).toHaveBeenCalledTimes(3);
  await ready.close();
});

test("logs why a subscription broke, and nothing at its close", async () => {
  const warn = vi.fn();
  const { clock, ready, store, wait } = await readyWorld({ logger: { ...silentLogger, warn } });
  const broken = new Error("broken");
  const { watch } = events();
  store.watch = () => {
    store.watch = watch;
    throw broken;
  };
  wait();
  await clock.advance(5_000);
  await ready.close();
  expect(warn.mock.calls).toEqual([[{ err: broken }, "watch of tasks broke; subscribing again"]]);
  expect(clock.pendingTimers).toBeLessThanOrEqual(1);
});

test("logs each task that it could not requeue for a caller that has gone", async () => {
  const warn = vi.fn();
  const { ready, store, task, request } = await readyWorld({ logger: { ...silentLogger, warn } });
  const tasks = [task(), task()];
  await store.enqueue(tasks);
  const error = new Error("down") as never;
  const failed: Failed = { status: "failed", applied: "no", retryable: true, error };
  const requeue = store.requeue;
  store.requeue = async ([first, ...rest]) =>
    first ? [...(await requeue([first])), ...rest.map(() => failed)] : [];
  const outcome = await ready.claim(request({ limit: 2 }), {
    signal: AbortSignal.abort(),
    repeatable: false,
  });
  expect(outcome).toEqual({ status: "claimed", tasks: [] });
  expect(warn.mock.calls).toEqual([
    [{ err: error, id: tasks[1]?.id }, "could not requeue a task whose claimer has gone"],
  ]);
  await ready.close();
});

test("waiters whom a rate keeps back claim when its window ends, one after another", async () => {
  const { clock, ready, store, asked, task, wait } = await readyWorld();
  const rate = { limit: 1, perMs: 100 };
  const { namespace, kind } = task();
  const limit = { running: null, rate };
  await store.limits?.declare({ namespace, scope: "kind", name: kind, limit, by: "a test" });
  await store.enqueue([task(), task(), task()]);
  const waits = [wait(), wait(), wait()];
  await clock.settle();
  const claimed = () => waits.filter(({ got }) => got === 1).length;
  expect(claimed()).toBe(1);
  asked.claims = 0;
  await clock.advance(99);
  expect([claimed(), asked.claims]).toEqual([1, 0]);
  await clock.advance(1);
  expect(claimed()).toBe(2);
  await clock.advance(100);
  expect(claimed()).toBe(3);
  await ready.close();
});
