import { describe, expect, it } from "vitest";
import { echo, stepped, tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import { RetryLater, type RetryLaterOptions, retryInMs } from "./retry-later.js";

const IN_TEN_MINUTES = { inMs: 600_000, reason: "the bank is closed" };

async function running(attempts = 1) {
  const world = tasksWorld();
  const { runs, handler } = stepped();
  const worker = world.tasks.work([handler]);
  const handle = await world.tasks.enqueue(echo, 1, { maxAttempts: attempts });
  await world.clock.advance(10);
  return { ...world, worker, runs, handle };
}

describe("a handler that throws RetryLater", () => {
  it("gets the task again at that time, and has not failed", async () => {
    const { tasks, clock, runs, handle, worker } = await running();
    let result: unknown;
    void handle.result().then((output) => (result = output));
    runs[0]?.fail(new RetryLater(IN_TEN_MINUTES));
    await clock.advance(10);
    const put = await tasks.get(handle.id);
    expect(put).toMatchObject({ state: "pending", failures: 0, error: null, postponed: 1 });
    expect(put?.attempts).toMatchObject([{ result: "returned", error: "the bank is closed" }]);
    await clock.advance(590_000);
    expect(runs).toHaveLength(1);
    await clock.advance(12_000);
    expect(runs[1]?.context.task).toMatchObject({ postponed: 1, failures: 0, attempt: 2 });
    // The first caller is still waiting.
    expect(result).toBeUndefined();
    runs[1]?.end("sent");
    await clock.advance(1_000);
    expect(result).toBe("sent");
    await worker.close();
  });

  it("ends the task when it was put off mostTimes", async () => {
    const { tasks, clock, runs, handle, worker } = await running(5);
    for (const time of [0, 1]) {
      runs[time]?.fail(new RetryLater({ inMs: 1_000, mostTimes: 2 }));
      await clock.advance(4_000);
    }
    runs[2]?.fail(new RetryLater({ inMs: 1_000, reason: "closed", mostTimes: 2 }));
    await clock.advance(10);
    expect(await tasks.get(handle.id)).toMatchObject({
      state: "dead",
      failures: 1,
      postponed: 2,
      error: "put off 2 times, its mostTimes: closed",
    });
    await worker.close();
  });

  it("may be one of another copy of the package", async () => {
    const { tasks, clock, runs, handle, worker } = await running();
    const error = Object.assign(new Error("later"), {
      name: "RetryLater",
      inMs: 1_000,
      reason: null,
      mostTimes: null,
    });
    runs[0]?.fail(error);
    await clock.advance(10);
    expect(await tasks.get(handle.id)).toMatchObject({ postponed: 1, failures: 0 });
    await worker.close();
  });
});

describe("new RetryLater", () => {
  it.each<[string, object]>([
    ["inMs", {}],
    ["inMs", { inMs: 1, at: new Date(0) }],
    ["inMs", { inMs: -1 }],
    ["inMs", { inMs: 1.5 }],
    ["at", { at: "2030-01-01" }],
    ["at", { at: new Date("never") }],
    ["reason", { inMs: 1, reason: 5 }],
    ["mostTimes", { inMs: 1, mostTimes: 0 }],
    ["ms", { ms: 1 }],
  ])("names %s in %j", (path, options) => {
    expect(() => new RetryLater(options as RetryLaterOptions)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", path }),
    );
  });

  it("counts a time that has passed as now", () => {
    const at = new Date(10_000);
    expect(retryInMs(new RetryLater({ at }), 4_000)).toBe(6_000);
    expect(retryInMs(new RetryLater({ at }), 11_000)).toBe(0);
  });
});
