/** Ended tasks are kept for a time, and then collected in batches with pauses. */
import { expect, it, vi } from "vitest";
import { echo, tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import { defineTask } from "./define.js";
import { collectTasks, startReaper } from "./reaper.js";

const DAY_MS = 24 * 3_600_000;

it("a month of tasks keeps the table flat", async () => {
  const { tasks, store, clock, env } = tasksWorld();
  const never = new AbortController().signal;
  const sizes: number[] = [];
  const claim = { namespace: "default", holder: "w", queues: ["default"], kinds: null };
  for (let day = 0; day < 75; day += 1) {
    const ended = await tasks.enqueueAll(
      echo,
      Array.from({ length: 50 }, (_, data) => ({ data })),
    );
    const outcome = await store.claim({ ...claim, claimId: `${day}`, limit: 40, ttlMs: 1_000 });
    const held = outcome.status === "claimed" ? outcome.tasks : [];
    const grants = held.map(({ id, leaseId, token }) => ({
      namespace: "default",
      id,
      leaseId,
      token,
    }));
    await store.complete(grants.slice(0, 30).map((grant) => ({ ...grant, output: null })));
    const failure = { error: "e", retryInMs: null, final: true };
    await store.fail(grants.slice(30).map((grant) => ({ ...grant, ...failure })));
    await store.cancel(ended.slice(40).map(({ id }) => ({ namespace: "default", id })));
    await clock.advance(DAY_MS);
    await collectTasks(store, env, never);
    const counts = await tasks.counts();
    expect(counts.pending + counts.running).toBe(0);
    sizes.push(counts.done + counts.dead + counts.cancelled);
  }
  // Done tasks for seven days, the others for thirty.
  const full = 6 * 30 + 29 * 20;
  expect(sizes.slice(31).every((size) => size >= full && size <= full + 50)).toBe(true);
  expect(new Set(sizes.slice(31)).size).toBe(1);
});

it("is chosen for a kind and for a task, by default seven and thirty days", async () => {
  const { client, store } = tasksWorld();
  const enqueue = vi.fn(store.enqueue.bind(store));
  const tasks = client("me", { enqueue });
  const kind = defineTask("kept", { retain: { deadMs: null } });
  await tasks.enqueue(echo, 1);
  await tasks.enqueue(kind, 1);
  await tasks.enqueue(kind, 1, { retain: { doneMs: 5 } });
  const retained = enqueue.mock.calls.map(([[task]]) => task?.retain);
  expect(retained).toEqual([
    { doneMs: 7 * DAY_MS, deadMs: 30 * DAY_MS },
    { doneMs: 7 * DAY_MS, deadMs: null },
    { doneMs: 5, deadMs: null },
  ]);
  for (const [retain, path] of [
    [{ doneMs: -1 }, "retain.doneMs"],
    [{ deadMs: 1.5 }, "retain.deadMs"],
    [{ done: 1 }, "done"],
  ] as const) {
    const wrong = tasks.enqueue(echo, 1, { retain: retain as object });
    await expect(wrong).rejects.toMatchObject({ code: "INVALID_OPTION", path });
    const define = () => defineTask("kind", { retain: retain as object });
    expect(define).toThrow(expect.objectContaining({ path }));
  }
});

it("collects in batches, and pauses after each for as long as it took", async () => {
  const { clock, env } = tasksWorld();
  const begun: number[] = [];
  const collect = async (limit: number) => {
    begun.push(clock.monotonic());
    await new Promise<void>((resolve) => clock.timer(300, resolve));
    return begun.length < 4 ? limit : 7;
  };
  const collected = collectTasks({ collect }, env, new AbortController().signal);
  await clock.advance(10_000);
  await collected;
  const [first = 0] = begun;
  expect(begun.map((atMs) => atMs - first)).toEqual([0, 600, 1_200, 1_800]);
});

it("stops between two batches", async () => {
  const { clock, env, store } = tasksWorld();
  let batches = 0;
  vi.spyOn(store, "collect").mockImplementation(async (limit) => {
    batches += 1;
    return limit;
  });
  const reaper = startReaper(store, env);
  await clock.advance(80_000);
  expect(batches).toBeGreaterThan(10);
  const stopped = reaper.stop();
  await clock.advance(100);
  await stopped;
  const before = batches;
  await clock.advance(200_000);
  expect(batches).toBe(before);
  expect(clock.pendingTimers).toBe(0);
});
