/** What becomes of the slot of a handler that does not stop when its task is lost. */
import { describe, expect, it } from "vitest";
import { echo, stepped, tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import type { Logger } from "../env/index.js";

const TTL_MS = 3_000;
const GRACE_MS = 2_000;

function world() {
  const events: string[] = [];
  const note = (fields: { event?: string }) => void (fields.event && events.push(fields.event));
  const logger = { debug() {}, info: note, warn: note, error: note } as unknown as Logger;
  const tasks = tasksWorld(logger);
  const handlers = stepped();
  const untilAborted = async () => {
    while (handlers.runs[0]?.context.signal.aborted !== true) await tasks.clock.advance(10);
  };
  return { ...tasks, ...handlers, events, untilAborted };
}

describe("a handler that goes on although its task was cancelled", () => {
  it("gives its slot back after the grace, and not before", async () => {
    const { tasks, clock, runs, handler, events, untilAborted } = world();
    const worker = tasks.work([handler], { ttlMs: TTL_MS, concurrency: 1, graceMs: GRACE_MS });
    const hung = await tasks.enqueue(echo, "hung");
    await clock.advance(10);
    const next = await tasks.enqueue(echo, "next");
    await tasks.cancel(hung.id);
    await untilAborted();
    await clock.advance(GRACE_MS - 10);
    expect([runs.length, worker.running]).toEqual([1, 1]);
    await clock.advance(20);
    expect(events).toContain("handler_abandoned");
    await clock.advance(2_000);
    expect(runs.map(({ data }) => data)).toEqual(["hung", "next"]);
    runs[1]?.end();
    await clock.advance(10);
    expect(await tasks.get(next.id)).toMatchObject({ state: "done" });
    // What it returns at last changes nothing.
    runs[0]?.end("late");
    await clock.advance(10);
    expect(await tasks.get(hung.id)).toMatchObject({ state: "cancelled", output: null });
    expect(events).toContain("handler_returned");
    expect(worker.running).toBe(0);
    await worker.close();
  });

  it("is no loss to warn of when it ran for too long", async () => {
    const { tasks, clock, handler, events } = world();
    const worker = tasks.work([handler], { concurrency: 1, graceMs: GRACE_MS });
    await tasks.enqueue(echo, "hung", { maxRunMs: 1_000, maxAttempts: 1 });
    await clock.advance(60_000);
    // Its lease was given up for the report: no other holder has taken it.
    expect(events).toEqual(["task_timeout", "handler_abandoned"]);
    await worker.close();
  });

  it("is not abandoned if it ends within the grace", async () => {
    const { tasks, clock, runs, handler, events, untilAborted } = world();
    const worker = tasks.work([handler], { ttlMs: TTL_MS, concurrency: 1, graceMs: GRACE_MS });
    const { id } = await tasks.enqueue(echo, "slow");
    await clock.advance(10);
    await tasks.cancel(id);
    await untilAborted();
    await clock.advance(GRACE_MS / 2);
    runs[0]?.end();
    await clock.advance(10 * GRACE_MS);
    expect(events).not.toContain("handler_abandoned");
    expect(worker.running).toBe(0);
    await worker.close();
  });
});

describe("a worker of which too many handlers are abandoned", () => {
  it("claims nothing, says so, and goes on when one has ended", async () => {
    const { tasks, clock, runs, handler, events } = world();
    const options = { ttlMs: TTL_MS, concurrency: 2, graceMs: GRACE_MS, maxAbandoned: 1 };
    const worker = tasks.work([handler], options);
    const stuck = expect(worker.done).rejects.toMatchObject({ code: "WORKER_STUCK", abandoned: 2 });
    const hung = await tasks.enqueueAll(echo, [{ data: 1 }, { data: 2 }]);
    await clock.advance(10);
    for (const { id } of hung) await tasks.cancel(id);
    await clock.advance(TTL_MS + GRACE_MS);
    await stuck;
    expect(events).toContain("worker_stuck");
    const { id } = await tasks.enqueue(echo, "waits");
    await clock.advance(10_000);
    expect(runs).toHaveLength(2);
    expect(worker.running).toBe(0);
    runs[0]?.end();
    await clock.advance(10);
    expect(events).toContain("worker_recovered");
    runs[2]?.end();
    await clock.advance(10);
    expect(await tasks.get(id)).toMatchObject({ state: "done" });
    await worker.close();
  });

  it("is done when it is closed, however many are abandoned", async () => {
    const { tasks, clock, handler } = world();
    const worker = tasks.work([handler], { ttlMs: TTL_MS, concurrency: 2, graceMs: GRACE_MS });
    const { id } = await tasks.enqueue(echo, "hung");
    await clock.advance(10);
    await tasks.cancel(id);
    await clock.advance(TTL_MS + GRACE_MS);
    const closed = worker.close();
    await clock.advance(GRACE_MS);
    await closed;
    await worker.done;
  });

  it.each([-1, 1.5, 1_001])("may not be given a maxAbandoned of %d", (maxAbandoned) => {
    const { tasks, handler } = world();
    expect(() => tasks.work([handler], { maxAbandoned })).toThrow("maxAbandoned");
  });
});
