/** A notification names no kind. Groups of waiters with different kinds claim a few at once. */
import { expect, test } from "vitest";
import { readyWorld } from "../../../../tests/support/worlds/ready-world.js";
import { nextTurn } from "../env/index.js";

const GROUPS = 50;
const kinds = Array.from({ length: GROUPS }, (_, n) => `kind-${n}`);

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await nextTurn();
}

/** Claims by kind that a test lets end, and how many are under way at most. */
async function manyGroups(options: Parameters<typeof readyWorld>[0] = {}) {
  const world = await readyWorld(options);
  const { store, wait } = world;
  const claimed: string[] = [];
  const ends: (() => void)[] = [];
  let underWay = 0;
  const state = { most: 0, isSlow: false };
  const waits = kinds.map((kind) => wait({ kinds: [kind] }));
  // The beginning of the subscription has woken all of them.
  await turns(GROUPS);
  const claim = store.claim;
  store.claim = async (request, ...rest) => {
    claimed.push(request.kinds?.join() ?? "any");
    underWay += 1;
    state.most = Math.max(state.most, underWay);
    try {
      if (state.isSlow) await new Promise<void>((resolve) => ends.push(resolve));
      return await claim(request, ...rest);
    } finally {
      underWay -= 1;
    }
  };
  /** Ends one claim after another until none begins any more. */
  const endAll = async () => {
    for (let quiet = 0; quiet < 5; quiet += 1) {
      const end = ends.shift();
      if (end) quiet = 0;
      end?.();
      await nextTurn();
    }
  };
  return { ...world, claimed, state, waits, endAll };
}

test("a notification wakes a few groups at once, and each of the others when a claim has ended", async () => {
  const { ready, store, task, claimed, state, endAll } = await manyGroups();
  state.isSlow = true;
  await store.enqueue([task({ kind: "other" })]);
  await turns(5);
  expect(claimed).toEqual(kinds.slice(0, 4));
  await endAll();
  expect(claimed).toEqual(kinds);
  expect(state.most).toBe(4);
  await ready.close();
});

test("of claims that end at once, a few begin in each turn of the event loop", async () => {
  const { ready, store, task, claimed } = await manyGroups();
  await store.enqueue([task({ kind: "other" })]);
  const begun: number[] = [];
  for (let turn = 0; claimed.length < GROUPS; turn += 1) {
    expect(turn).toBeLessThan(1_000);
    const before = claimed.length;
    await nextTurn();
    begun.push(claimed.length - before);
  }
  // Two turns of the claims may fall between two of ours.
  expect(Math.max(...begun)).toBeLessThanOrEqual(8);
  expect(new Set(claimed).size).toBe(GROUPS);
  await ready.close();
});

test("the poll wakes a few groups at once, and all of them in the end", async () => {
  const { clock, ready, claimed, state, endAll } = await manyGroups({ watch: "poll" });
  state.isSlow = true;
  await clock.advance(2_000);
  expect(claimed).toHaveLength(4);
  await endAll();
  expect(new Set(claimed).size).toBe(GROUPS);
  expect(state.most).toBe(4);
  await ready.close();
});

test("the task of the last group is found, though notifications for others never end", async () => {
  const { ready, store, task, claimed, waits, state } = await manyGroups();
  await store.enqueue([task({ kind: kinds.at(-1) as string })]);
  for (let turn = 0; waits.at(-1)?.got === null; turn += 1) {
    expect(turn).toBeLessThan(1_000);
    await store.enqueue([task({ kind: "other" })]);
    await nextTurn();
  }
  expect(waits.at(-1)?.got).toBe(1);
  // No group has claimed again and again meanwhile.
  expect(claimed.length).toBeLessThan(2 * GROUPS);
  expect(state.most).toBeLessThanOrEqual(4);
  await ready.close();
});

test("a notification during a claim of the group is served like any other", async () => {
  const { ready, store, task, claimed, state, endAll } = await manyGroups();
  state.isSlow = true;
  for (let n = 0; n < 3; n += 1) {
    await store.enqueue([task({ kind: "other" })]);
    await turns(5);
  }
  expect(claimed).toEqual(kinds.slice(0, 4));
  await endAll();
  expect(state.most).toBe(4);
  expect(new Set(claimed).size).toBe(GROUPS);
  await ready.close();
});

test("claims that fail leave the next ones room", async () => {
  const { ready, store, task, waits, claimed } = await manyGroups();
  const claim = store.claim;
  const failed = { status: "failed", applied: "no", retryable: true } as const;
  store.claim = (request, ...rest) =>
    kinds.indexOf(request.kinds?.[0] ?? "") < 20
      ? Promise.resolve({ ...failed, error: new Error("down") as never })
      : claim(request, ...rest);
  await store.enqueue([task({ kind: "other" })]);
  await turns(GROUPS);
  expect(claimed).toEqual(kinds.slice(20));
  expect(waits.filter(({ got }) => got === -1)).toHaveLength(20);
  await ready.close();
});

test("claims that reject leave the next ones room", async () => {
  const { clock, ready, store, task, request, wait } = await readyWorld();
  // As many as claim by a notification at once.
  const rejecting = kinds.slice(0, 4).map((kind) => ready.claim(request({ kinds: [kind] })));
  const rejected = Promise.allSettled(rejecting);
  await clock.settle();
  const claim = store.claim;
  const reason = new Error("no claim slot");
  store.claim = () => Promise.reject(reason);
  await store.enqueue([task({ kind: "other" })]);
  expect(await rejected).toEqual(rejecting.map(() => ({ status: "rejected", reason })));
  store.claim = claim;
  const next = wait({ kinds: ["next"] });
  await clock.settle();
  await store.enqueue([task({ kind: "next" })]);
  await clock.settle();
  expect(next.got).toBe(1);
  await ready.close();
});

test("callers that go between their notification and their claim leave the next ones room", async () => {
  const { clock, ready, store, task, wait } = await readyWorld();
  let gone = new AbortController();
  let send = () => {};
  store.watch = async function* () {
    for (;;) {
      await new Promise<void>((resolve) => {
        send = resolve;
      });
      yield { type: "ready", queue: "queue" };
      // The waiter is awake, but has not run yet.
      gone.abort();
    }
  };
  for (let n = 0; n < 10; n += 1) {
    gone = new AbortController();
    const leaving = wait({ kinds: ["a"] }, gone.signal);
    await clock.settle();
    send();
    await turns(5);
    expect(leaving.got).toBe(0);
  }
  const staying = wait();
  await clock.settle();
  await store.enqueue([task()]);
  send();
  await turns(5);
  expect(staying.got).toBe(1);
  void ready.close();
});
