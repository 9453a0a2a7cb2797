/** Retries of more tasks than are read at once, near the tenant's limit of live tasks. */
import { manualEnv } from "leasehold/testing";
import { expect, test, vi } from "vitest";
import { expectProblem, openTestApp } from "../../../../../tests/support/server/app.js";
import { TEST_LIMITS } from "../../../../../tests/support/server/test-limits.js";

test("a retry of many tasks needs quota for those that have ended, wherever they are in the request", async () => {
  const env = manualEnv();
  const { ask } = await openTestApp({ env, limits: { ...TEST_LIMITS, tasks: 130 } });
  const add = async (count: number): Promise<string[]> => {
    const added = Array.from({ length: count }, () => ({ task_data: 1 }));
    const { status, body } = await ask("POST", "/api/tasks", added);
    expect(status).toBe(201);
    return body.map(({ id }: { id: string }) => id);
  };
  /** The counts of tasks are sampled. */
  const sampled = () => env.clock.advance(60_000);
  const ended = await add(30);
  expect((await ask("POST", "/api/tasks/cancel", ended)).status).toBe(200);
  await sampled();
  const live = await add(110);
  await sampled();
  const retry = (ids: readonly string[]) => ask("POST", "/api/tasks/retry", ids);
  // 20 more fit, and the first 110 need none.
  expectProblem(await retry([...live, ...ended]), 429, "LIMIT_REACHED");
  const { status, body } = await retry([...live, ...ended.slice(0, 20)]);
  expect([status, body.length]).toEqual([200, 130]);
  expect(body.every((outcome: { status: string }) => outcome.status === "ok")).toBe(true);
  await sampled();
  expectProblem(await retry(ended.slice(20)), 429, "LIMIT_REACHED");
  const all = (await ask("GET", "/api/tasks?state=cancelled&limit=200")).body.items;
  expect(all).toHaveLength(10);
});

test("quota that a retry does not use is free at once", async () => {
  const { ask } = await openTestApp({ env: manualEnv(), limits: { ...TEST_LIMITS, tasks: 10 } });
  const none = Array.from({ length: 8 }, (_, n) => `${n}0000000-0000-4000-8000-000000000000`);
  for (let times = 0; times < 5; times += 1) {
    expect((await ask("POST", "/api/tasks/retry", none)).status).toBe(200);
  }
  const added = Array.from({ length: 10 }, () => ({ task_data: 1 }));
  expect((await ask("POST", "/api/tasks", added)).status).toBe(201);
});

test("quota of a retry that throws is free at once, however often it does", async () => {
  const { ask, stores } = await openTestApp({
    env: manualEnv(),
    limits: { ...TEST_LIMITS, tasks: 10 },
  });
  const { control } = stores;
  if (!control) throw new Error("no control");
  const add = (count: number) =>
    ask(
      "POST",
      "/api/tasks",
      Array.from({ length: count }, () => ({ task_data: 1 })),
    );
  const ids = (await add(4)).body.map(({ id }: { id: string }) => id);
  await ask("POST", "/api/tasks/cancel", ids);
  const failing = vi.spyOn(control, "perform").mockRejectedValue(new Error("a driver bug"));
  const bulk = { operation: "retry", filter: {}, reason: "test" };
  for (let times = 0; times < 3; times += 1) {
    expect((await ask("POST", "/api/tasks/retry", ids)).status).toBe(500);
    expect((await ask("POST", `/api/tasks/${ids[0]}/retry`)).status).toBe(500);
    expect((await ask("POST", "/api/tasks/bulk", bulk)).status).toBe(500);
  }
  failing.mockRestore();
  // The four cancelled ones count until the tasks are counted anew.
  expect((await add(6)).status).toBe(201);
  expectProblem(await add(1), 429, "LIMIT_REACHED");
});
