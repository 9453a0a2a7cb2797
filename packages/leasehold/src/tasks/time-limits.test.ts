/** How long a worker lets a handler run. */
import { describe, expect, it } from "vitest";
import { echo, stepped, tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import { StoreUnavailableError } from "../lease/index.js";
import type { HeartbeatOutcome, TaskStore } from "./port.js";

const TTL_MS = 3_000;
const RUN_MS = 5_000;
const GRACE_MS = 2_000;
const LIMIT = { maxRunMs: RUN_MS, backoff: { firstMs: 60_000 } };
const TOO_LONG = "it ran longer than 5 s (maxRunMs)";

/** A worker with one slot, whose handler has begun with the first of the tasks. */
async function running(over: Partial<TaskStore> = {}) {
  const world = tasksWorld();
  const { runs, handler } = stepped();
  const tasks = world.client("me", over);
  const options = { ttlMs: TTL_MS, graceMs: GRACE_MS, concurrency: 1, maxAbandoned: 5 };
  const worker = tasks.work([handler], options);
  const { id } = await tasks.enqueue(echo, "first", LIMIT);
  await world.clock.advance(10);
  const [run] = runs;
  if (!run) throw new Error("the handler runs");
  return { ...world, tasks, worker, id, runs, run };
}

describe("a handler that runs longer than maxRunMs", () => {
  it("learns it by its signal, and fails when it ends", async () => {
    const { tasks, clock, id, run, worker } = await running();
    await clock.advance(RUN_MS - 20);
    expect(run.context.signal.aborted).toBe(false);
    await clock.advance(20);
    expect(run.context.signal.reason).toMatchObject({ code: "TASK_TIMEOUT", maxRunMs: RUN_MS, id });
    // Until it ends, no other worker may have the task.
    expect(await tasks.get(id)).toMatchObject({ state: "running" });
    run.fail(new Error("aborted"));
    await clock.advance(10);
    expect(await tasks.get(id)).toMatchObject({ state: "pending", failures: 1, error: TOO_LONG });
    expect(worker.running).toBe(0);
    await worker.close();
  });

  it("fails although it returns", async () => {
    const { tasks, clock, id, run } = await running();
    await clock.advance(RUN_MS + GRACE_MS / 2);
    run.end("late");
    await clock.advance(10);
    expect(await tasks.get(id)).toMatchObject({ state: "pending", error: TOO_LONG, output: null });
  });

  it("does not when it ends in time", async () => {
    const { tasks, clock, id, run } = await running();
    await clock.advance(RUN_MS - 20);
    run.end("in time");
    await clock.advance(2 * (RUN_MS + GRACE_MS));
    expect(run.context.signal.aborted).toBe(false);
    expect(await tasks.get(id)).toMatchObject({ state: "done", failures: 0 });
  });

  it("fails and loses its slot after the grace, though it never ends", async () => {
    const { tasks, clock, id, run, runs, worker } = await running();
    await tasks.enqueue(echo, "next");
    await clock.advance(RUN_MS + GRACE_MS - 20);
    expect([worker.running, runs.length]).toEqual([1, 1]);
    await clock.advance(20);
    expect(await tasks.get(id)).toMatchObject({ state: "pending", failures: 1, error: TOO_LONG });
    await clock.advance(2_000);
    expect(runs.map(({ data }) => data)).toEqual(["first", "next"]);
    // What it returns at last changes nothing.
    run.end("late");
    await clock.advance(10);
    expect(await tasks.get(id)).toMatchObject({ state: "pending", failures: 1, output: null });
    expect(worker.running).toBe(1);
    runs[1]?.end();
    await worker.close();
  });

  it("crashes if the store is unavailable until the end of the grace", async () => {
    let isAway = false;
    const heartbeat: TaskStore["heartbeat"] = async (requests) => {
      if (!isAway) return world.store.heartbeat(requests);
      const error = new StoreUnavailableError("away", { outcome: "none" });
      const failed: HeartbeatOutcome = { status: "failed", applied: "no", retryable: true, error };
      return requests.map(() => failed);
    };
    const world: Awaited<ReturnType<typeof running>> = await running({ heartbeat });
    const { clock, runs, run, tasks, id } = world;
    await clock.advance(RUN_MS - 100);
    isAway = true;
    await clock.advance(TTL_MS + GRACE_MS);
    expect(run.context.lease.checkAlive()).toBe(false);
    expect(await tasks.get(id)).toMatchObject({ state: "running", failures: 0, crashes: 1 });
    run.end("late");
    await clock.advance(10);
    expect(await tasks.get(id)).toMatchObject({ state: "running", output: null });
    runs[1]?.end("again");
    await clock.advance(10);
    expect(await tasks.get(id)).toMatchObject({ state: "done", output: "again" });
  });

  it("is abandoned once, though its failure is never acknowledged", async () => {
    const fail: TaskStore["fail"] = async (requests) => {
      const error = new StoreUnavailableError("away", { outcome: "none" });
      return requests.map(() => ({ status: "failed", applied: "no", retryable: true, error }));
    };
    const { clock, worker, runs, run, tasks, id } = await running({ fail });
    await clock.advance(RUN_MS + 2 * GRACE_MS + TTL_MS);
    // Its lease has expired, and the worker has it again: the only slot is in use.
    expect([worker.running, runs.length]).toEqual([1, 2]);
    run.end("late");
    await clock.advance(10);
    expect(worker.running).toBe(1);
    runs[1]?.end("again");
    await clock.advance(10);
    expect(await tasks.get(id)).toMatchObject({ state: "done", output: "again", crashes: 1 });
    expect(worker.running).toBe(0);
    await worker.close();
  });

  it("has all of its time, however long the claim waited for its task", async () => {
    const { tasks, clock } = tasksWorld();
    const { runs, handler } = stepped();
    // The store keeps the lease for 1,500 ms, a grace of 100 and a second to report: less than the claim waits.
    const worker = tasks.work([handler], { graceMs: 100 });
    await clock.advance(1_900);
    const { id } = await tasks.enqueue(echo, "short", { maxRunMs: 1_500 });
    await clock.advance(1_400);
    expect(runs[0]?.context.signal.aborted).toBe(false);
    runs[0]?.end("in time");
    await clock.advance(10);
    const done = { state: "done", output: "in time", attempt: 1, crashes: 0 };
    expect(await tasks.get(id)).toMatchObject(done);
    await worker.close();
  });

  it("fails as often as it may, and never crashes by it", async () => {
    const { tasks, clock } = tasksWorld();
    const { handler } = stepped();
    const worker = tasks.work([handler], { graceMs: 100, concurrency: 1, maxAbandoned: 9 });
    const limits = { maxRunMs: 1_500, maxAttempts: 2, backoff: { firstMs: 1_900, jitter: 0 } };
    const { id } = await tasks.enqueue(echo, "hangs", limits);
    await clock.advance(10_000);
    const dead = { state: "dead", attempt: 2, failures: 2, crashes: 0 };
    expect(await tasks.get(id)).toMatchObject(dead);
    await worker.close();
  });

  it("frees the slots of a whole worker for the next task", async () => {
    const { tasks, clock } = tasksWorld();
    const { runs, handler } = stepped();
    const worker = tasks.work([handler]);
    for (let hung = 0; hung < 8; hung += 1) await tasks.enqueue(echo, "hangs", LIMIT);
    await clock.advance(10);
    expect(worker.running).toBe(8);
    const { id } = await tasks.enqueue(echo, "good");
    // The limit, and the default grace.
    await clock.advance(RUN_MS + 5_000 + 100);
    expect(runs.at(-1)?.data).toBe("good");
    runs.at(-1)?.end();
    await clock.advance(10);
    expect(await tasks.get(id)).toMatchObject({ state: "done" });
    await worker.close();
  });
});

it("warns once of a handler without a limit that has run for an hour", async () => {
  const lines: object[] = [];
  const note = (fields: object) => void lines.push(fields);
  const logger = { debug() {}, info() {}, warn: note, error: note };
  const { tasks, clock } = tasksWorld(logger);
  const { runs, handler } = stepped();
  const worker = tasks.work([handler], { ttlMs: 600_000 });
  const { id } = await tasks.enqueue(echo, "long");
  await clock.advance(3_500_000);
  expect(lines).toEqual([]);
  await clock.advance(3_600_000);
  expect(lines).toMatchObject([{ event: "handler_runs_long", id, kind: "echo" }]);
  runs[0]?.end();
  await worker.close();
});
