import { expect, test } from "vitest";
import { readyWorld } from "../../../../tests/support/worlds/ready-world.js";
import { startReaper } from "./reaper.js";

test("wakes as many as there are tasks, by one subscription", async () => {
  const { clock, ready, store, asked, task, wait } = await readyWorld();
  const waits = Array.from({ length: 50 }, () => wait());
  await clock.settle();
  expect(asked.claims).toBeLessThanOrEqual(51);
  const before = asked.claims;
  await store.enqueue([task(), task(), task()]);
  await clock.settle();
  expect(waits.map(({ got }) => got).filter((got) => got !== null)).toEqual([1, 1, 1]);
  // One for each notification, one passed on after each task.
  expect(asked.claims - before).toBeLessThanOrEqual(7);
  expect(asked.watches).toBe(1);
  await ready.close();
  await clock.settle();
  expect(waits.every(({ got }) => got !== null)).toBe(true);
  expect(clock.pendingTimers).toBeLessThanOrEqual(1);
});

test("a notification reaches every group that it concerns: queues and kinds differ", async () => {
  const { clock, ready, store, task, wait } = await readyWorld();
  const [a, b, other, both] = [
    wait({ kinds: ["a"] }),
    wait({ kinds: ["b"] }),
    wait({ queues: ["other"] }),
    wait({ queues: ["other", "queue"], kinds: ["a"] }),
  ];
  await clock.settle();
  await store.enqueue([task({ kind: "b" })]);
  await clock.settle();
  expect([a.got, b.got, other.got, both.got]).toEqual([null, 1, null, null]);
  await store.enqueue([task({ kind: "a" }), task({ queue: "other" })]);
  await clock.settle();
  expect([other.got, [a.got, both.got].sort()]).toEqual([1, [1, null].sort()]);
  await ready.close();
});

test("nothing is lost between a claim and the wait after it", async () => {
  const { clock, ready, store, task, request } = await readyWorld();
  // The task comes while the empty claim is on its way back.
  const claim = store.claim.bind(store);
  let first = true;
  store.claim = async (...args) => {
    const outcome = await claim(...args);
    if (first) {
      first = false;
      await store.enqueue([task()]);
      await clock.settle();
    }
    return outcome;
  };
  const outcome = await ready.claim(request());
  expect(outcome).toMatchObject({ status: "claimed", tasks: [{ attempt: 1 }] });
  await ready.close();
});

test("the poll finds a task without a notification", async () => {
  const { clock, ready, store, asked, task, wait } = await readyWorld({ watch: "poll" });
  const waits = Array.from({ length: 20 }, () => wait());
  await clock.settle();
  const before = asked.claims;
  await clock.advance(10_000);
  // One claim a second for all of them.
  expect(asked.claims - before).toBeLessThan(16);
  const due = new Date(clock.wall() + 3_000).toISOString();
  await store.enqueue([task({ scheduledAt: due }), task({ scheduledAt: due })]);
  await clock.advance(2_900);
  expect(waits.every(({ got }) => got === null)).toBe(true);
  await clock.advance(1_400);
  expect(waits.filter(({ got }) => got === 1)).toHaveLength(2);
  expect(asked.watches).toBe(0);
  await ready.close();
});

test("a wait ends with its time and with its signal; a notification for a caller that has gone is passed on", async () => {
  const { clock, ready, store, task, wait } = await readyWorld();
  const short = wait({ waitMs: 500 });
  const none = wait({ waitMs: 0 });
  await clock.settle();
  expect(none.got).toBe(0);
  await clock.advance(499);
  expect(short.got).toBe(null);
  await clock.advance(1);
  expect(short.got).toBe(0);

  const gone = new AbortController();
  const first = wait({}, gone.signal);
  const second = wait();
  await clock.settle();
  // Both in the same turn: the notification is on its way to the first when it goes.
  const enqueued = store.enqueue([task()]);
  gone.abort();
  await enqueued;
  await clock.settle();
  expect([first.got, second.got]).toEqual([0, 1]);
  await ready.close();
});

test("a caller that leaves after it was woken, and before the store claims for it, passes the wake-up on", async () => {
  const { clock, ready, store, task, wait } = await readyWorld();
  const claim = store.claim.bind(store);
  const gone = new AbortController();
  const first = wait({ holder: "first" }, gone.signal);
  await clock.settle();
  const second = wait({ holder: "second" });
  await clock.settle();
  // As a claim that waits for a slot of its tenant.
  let isWoken = false;
  store.claim = async (request, options = {}) => {
    if (request.holder !== "first") return claim(request, options);
    isWoken = true;
    await new Promise((resolve) => options.signal?.addEventListener("abort", resolve));
    return { status: "claimed", tasks: [] };
  };
  await store.enqueue([task()]);
  await clock.settle();
  expect([isWoken, second.got]).toEqual([true, null]);
  gone.abort();
  await clock.settle();
  expect([first.got, second.got]).toEqual([0, 1]);
  await ready.close();
});

test("a task claimed for a caller that has gone is requeued", async () => {
  const { clock, ready, store, tasks, task, request } = await readyWorld();
  await store.enqueue([task()]);
  const gone = new AbortController();
  const claim = store.claim.bind(store);
  store.claim = async (...args) => {
    const outcome = await claim(...args);
    gone.abort();
    return outcome;
  };
  const outcome = await ready.claim(request(), { signal: gone.signal, repeatable: false });
  expect(outcome).toEqual({ status: "claimed", tasks: [] });
  await clock.settle();
  expect((await tasks.counts("default")).pending).toBe(1);
  const { items } = await tasks.list({ namespace: "default" });
  expect(items[0]).toMatchObject({ attempt: 1, failures: 0, crashes: 0 });
  await ready.close();
});

test("a task that a repeated claim has received is not requeued", async () => {
  const { ready, store, tasks, task, request } = await readyWorld();
  await store.enqueue([task()]);
  const gone = new AbortController();
  const claim = store.claim.bind(store);
  const same = request();
  let repeated: Promise<unknown> | undefined;
  store.claim = async (...args) => {
    const outcome = await claim(...args);
    // The connection breaks here, and the repetition overtakes the first answer.
    gone.abort();
    store.claim = claim;
    repeated = ready.claim(same);
    await repeated;
    return outcome;
  };
  await ready.claim(same, { signal: gone.signal });
  expect(await repeated).toMatchObject({ tasks: [{ attempt: 1 }] });
  expect(await tasks.counts("default")).toMatchObject({ running: 1, pending: 0 });
  await ready.close();
});

test("a store that fails ends the wait with the failure", async () => {
  const { ready, store, request } = await readyWorld();
  store.claim = () =>
    Promise.resolve({
      ...({ status: "failed", applied: "no", retryable: true } as const),
      error: new Error("down") as never,
    });
  expect(await ready.claim(request())).toMatchObject({ status: "failed" });
  await ready.close();
});

test("a subscription that breaks is made anew", async () => {
  const { clock, ready, store, task, wait } = await readyWorld();
  const watch = store.watch.bind(store);
  let watches = 0;
  store.watch = (...args) => {
    watches += 1;
    if (watches < 3) throw new Error("broken");
    return watch(...args);
  };
  const waiting = wait();
  await clock.advance(5_000);
  expect(watches).toBe(3);
  await store.enqueue([task()]);
  await clock.settle();
  expect(waiting.got).toBe(1);
  await ready.close();
});

test("the reaper returns the tasks of dead workers; a store that is reaped for needs none", async () => {
  const { clock, env, store, tasks, task, request } = await readyWorld();
  await store.enqueue([task()]);
  await tasks.claim(request({ ttlMs: 1_000 }));
  const reaper = startReaper(store, env);
  await clock.advance(999);
  expect((await tasks.counts("default")).running).toBe(1);
  await clock.advance(700);
  expect((await tasks.counts("default")).pending).toBe(1);
  await reaper.stop();
  expect(clock.pendingTimers).toBe(0);
  const behind = { ...store, capabilities: { ...store.capabilities, reaps: true } };
  const none = startReaper(behind, env);
  expect(clock.pendingTimers).toBe(0);
  await none.stop();
});

test("notices tasks without a poll though the subscription has broken three times", async () => {
  const { clock, store, tasks, ready, task, wait } = await readyWorld();
  const watch = tasks.watch.bind(tasks);
  let cut = () => {};
  let watches = 0;
  store.watch = async function* (...args) {
    watches += 1;
    const broken = new Promise<never>((_, reject) => {
      cut = () => reject(new Error("broken"));
    });
    broken.catch(() => {});
    const events = watch(...args)[Symbol.asyncIterator]();
    for (;;) {
      const next = await Promise.race([events.next(), broken]);
      if (next.done) return;
      yield next.value;
    }
  };
  for (let round = 1; round <= 4; round += 1) {
    const waiting = wait();
    await clock.advance(5_000);
    expect(watches).toBe(round);
    expect(waiting.got).toBe(null);
    await store.enqueue([task()]);
    // No poll comes without the clock.
    await clock.settle();
    expect(waiting.got).toBe(1);
    cut();
    await clock.settle();
  }
  await clock.advance(5_000);
  await ready.close();
  expect(clock.pendingTimers).toBe(0);
});

test("a timer that ends a moment early does not leave a scheduled task to the poll", async () => {
  const { clock, ready, store, task, wait } = await readyWorld({ timersEarlyMs: 0.9 });
  const waits = [wait()];
  await clock.settle();
  const scheduledAt = new Date(clock.wall() + 300).toISOString();
  await store.enqueue([task({ scheduledAt })]);
  await clock.advance(310);
  expect(waits.map(({ got }) => got)).toEqual([1]);
  await ready.close();
});

test("a task that is scheduled for soon is claimed when it is due, without a poll", async () => {
  const { clock, ready, store, asked, task, wait } = await readyWorld();
  const waits = [wait(), wait(), wait({ queues: ["other"] })];
  await clock.settle();
  const [before, inMs] = [asked.claims, [300, 700]];
  const scheduledAt = (ms: number) => new Date(clock.wall() + ms).toISOString();
  await store.enqueue(inMs.map((ms) => task({ scheduledAt: scheduledAt(ms) })));
  await clock.advance(295);
  expect(waits.map(({ got }) => got)).toEqual([null, null, null]);
  expect(asked.claims).toBe(before);
  await clock.advance(10);
  expect(waits.filter(({ got }) => got === 1)).toHaveLength(1);
  await clock.advance(400);
  expect(waits.map(({ got }) => got)).toEqual([1, 1, null]);
  await ready.close();
  expect(clock.pendingTimers).toBeLessThanOrEqual(1);
});
