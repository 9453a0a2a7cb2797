import { describe, expect, it } from "vitest";
import { echo as echoing, tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import { defineTask } from "./define.js";
import type { Json, TaskStore } from "./port.js";

const echo = defineTask<Json>("echo");

describe("enqueue", () => {
  it("repeats an enqueue whose answer was lost, and adds one task", async () => {
    const { clock, client, store } = tasksWorld();
    let cuts = 3;
    const enqueue: TaskStore["enqueue"] = async (tasks) => {
      const outcomes = await store.enqueue(tasks);
      if (cuts-- <= 0) return outcomes;
      return tasks.map(() => ({
        status: "failed",
        applied: "maybe",
        retryable: true,
        error: new Error("cut after apply") as never,
      }));
    };
    const tasks = client("me", { enqueue });
    const enqueued = tasks.enqueue(echo, 1);
    await clock.advance(5_000);
    expect(await enqueued).toMatchObject({ status: "enqueued" });
    expect(await tasks.counts()).toMatchObject({ pending: 1 });
  });

  it("answers in the order of the tasks, though calls failed for some of them", async () => {
    const { clock, client, store } = tasksWorld();
    const cut = {
      status: "failed",
      applied: "no",
      retryable: true,
      error: new Error("cut") as never,
    } as const;
    let calls = 0;
    const enqueue: TaskStore["enqueue"] = async (tasks, options) => {
      calls += 1;
      const outcomes = await store.enqueue(tasks, options);
      return outcomes.map((outcome, at) => (calls < 3 && at % 2 === 0 ? cut : outcome));
    };
    const tasks = client("me", { enqueue });
    const ids = [5, 2, 4, 1, 3].map((digit) => `019a0000-0000-7000-8000-00000000000${digit}`);
    const enqueued = tasks.enqueueAll(
      echo,
      ids.map((id) => ({ id, data: id })),
    );
    await clock.advance(5_000);
    expect(await enqueued).toEqual(ids.map((id) => ({ status: "enqueued", id })));
    expect(calls).toBeGreaterThan(2);
  });

  it("sends tasks that are enqueued at the same time together, but none that another could hold up", async () => {
    const { clock, client, store } = tasksWorld();
    const sizes: number[] = [];
    const enqueue: TaskStore["enqueue"] = (tasks, options) => {
      sizes.push(tasks.length);
      return store.enqueue(tasks, options);
    };
    const tasks = client("me", { enqueue });
    const plain = Array.from({ length: 12 }, (_, at) => tasks.enqueue(echo, at));
    const id = "019a0000-0000-7000-8000-000000000001";
    const apart = [
      tasks.enqueue(echo, 1, { dedupeKey: "ada" }),
      tasks.enqueue(echo, 2, { id }),
      tasks.enqueue(echo, "x".repeat(20_000)),
      tasks.enqueueAll(echo, [{ data: 3 }, { data: 4 }]),
    ];
    await clock.settle();
    const enqueued = await Promise.all(plain);
    await Promise.all(apart);
    expect(sizes.sort((a, b) => a - b)).toEqual([1, 1, 1, 2, 12]);
    for (const [at, { id }] of enqueued.entries()) {
      expect((await tasks.get(id))?.data).toBe(at);
    }
  });

  it("names the field that is wrong, and sends nothing", async () => {
    const { tasks } = tasksWorld();
    const typed = defineTask("typed", {
      schema: {
        "~standard": {
          version: 1,
          vendor: "test",
          validate: (value: unknown) =>
            typeof (value as { width?: unknown })?.width === "number"
              ? { value: value as { width: number } }
              : { issues: [{ message: "must be a number", path: ["width"] }] },
        },
      },
    });
    const wrong: [() => Promise<unknown>, string][] = [
      [() => tasks.enqueue(typed, { width: "wide" }), "data.width"],
      [() => tasks.enqueue(echo, 1, { priority: 1e6 }), "priority"],
      [() => tasks.enqueue(echo, 1, { id: "7\n" }), "id"],
      [() => tasks.enqueue(echo, 1, { queue: "" }), "queue"],
      [() => tasks.enqueue(echo, 1, { scheduledAt: new Date("nonsense") }), "scheduledAt"],
      [() => tasks.enqueue(echo, 1n as never), "data"],
      // Misspelt, the second task would run as well.
      [() => tasks.enqueue(echo, 1, { dedupKey: "k" } as object), "dedupKey"],
      [() => tasks.enqueueAll(echo, [], { tx: null } as object), "tx"],
    ];
    for (const [call, path] of wrong) {
      await expect(call()).rejects.toMatchObject({ code: "INVALID_OPTION", path });
    }
    expect(await tasks.counts()).toMatchObject({ pending: 0 });
  });
});

it("looking says what is wrong with its query", async () => {
  const { tasks } = tasksWorld();
  const wrong: [() => Promise<unknown>, string][] = [
    [() => tasks.get(".."), "id"],
    [() => tasks.list({ state: "dead" } as object), "state"],
    [() => tasks.list({ limit: 0 }), "limit"],
    [() => tasks.list({ ids: "7" } as object), "ids"],
    [() => tasks.list({ ids: [`${"f".repeat(8)}-0000-7000-8000-${"0".repeat(12)}`, ""] }), "ids.1"],
    [() => tasks.list({ ids: Array.from({ length: 201 }, (_, at) => `${at}`) }), "ids"],
    [() => tasks.leases({ limit: 1.5 }), "limit"],
    [() => tasks.leases({ queue: "q" } as object), "queue"],
  ];
  for (const [call, path] of wrong) {
    await expect(call()).rejects.toMatchObject({ code: "INVALID_OPTION", path });
  }
});

it("defineTask() says which option it does not know", () => {
  expect(() => defineTask("kind", { maxAttempt: 1 } as object)).toThrow(
    /^maxAttempt is not an option; known are schema, limit, concurrencyKey, perKey, order, rate, version, upgrade, queue, /,
  );
});

it("work() says what is wrong with its handlers and options", () => {
  const { tasks } = tasksWorld();
  const handler = echo.handle(() => 1);
  expect(() => tasks.work([])).toThrow(/^handlers must be an array/);
  expect(() => tasks.work([handler, handler])).toThrow(
    /^handlers\.1 is a second handler for the kind "echo"/,
  );
  expect(() => tasks.work([{} as never])).toThrow(/^handlers\.0 must be made by/);
  expect(() => tasks.work([handler], { concurrency: 0 })).toThrow(/^concurrency must be from 1/);
  expect(() => tasks.work([handler], { ttlMs: 10 })).toThrow(/^ttlMs must be from 100/);
  expect(() => tasks.work([handler], { queues: [] })).toThrow(
    /^queues must be an array of at least one name/,
  );
  expect(() => tasks.work([handler], { parallel: 2 } as object)).toThrow(/^parallel is not an/);
});

it.each([
  ["before the year 1", new Date(-8.64e15)],
  ["the moment before the year 1", new Date(Date.parse("0001-01-01T00:00:00Z") - 1)],
  ["after the year 9999", new Date(Date.parse("9999-12-31T23:59:59.999Z") + 1)],
  ["no time at all", new Date(Number.NaN)],
])("refuses a scheduledAt that is %s", async (_, scheduledAt) => {
  const { tasks } = tasksWorld();
  const refused = { code: "INVALID_OPTION", path: "scheduledAt" };
  await expect(tasks.enqueue(echoing, 1, { scheduledAt })).rejects.toMatchObject(refused);
});
