/** The reasons that the server gives for a task that does not run. */
import { describe, expect, test, vi } from "vitest";
import { openTestConsoleApp as open } from "../../../../../tests/support/browser/console-app.js";
import type { Asked } from "../../../../../tests/support/server/app.js";

describe("why a task does not run", () => {
  const reasons = async ({ ask }: Pick<Asked, "ask">, id: string) =>
    (await ask("GET", `/api/tasks/${id}/why`)).body.reasons.map(
      ({ code }: { code: string }) => code,
    );

  test("is explained by what prevents it", async () => {
    const app = await open();
    const { asked, ask, get, clock } = app;
    const add = async (task: object) =>
      (await asked("POST", "/api/tasks", { task_data: 1, ...task })).id as string;
    const first = await add({ queue: "q" });
    const second = await add({ queue: "q" });
    const urgent = await add({ queue: "q", priority: -1 });
    const later = await add({ queue: "q", scheduled_at: "2020-01-01T13:00:00Z" });
    expect(await reasons(app, second)).toEqual(["noWorker", "behind"]);
    await asked("POST", "/api/tasks/next", { processor: "w", queues: ["q"], kinds: ["other"] });
    expect(await reasons(app, first)).toEqual(["noWorker", "behind"]);
    await asked("POST", "/api/tasks/next", { processor: "v", queues: ["q"] });
    // Another worker of the same process, with another queue.
    await asked("POST", "/api/tasks/next", { processor: "v", queues: ["another"] });
    expect(await reasons(app, urgent)).toEqual(["running"]);
    // The queue is read at most every 2 s.
    await clock.advance(2_000);
    expect(await reasons(app, first)).toEqual(["due"]);
    const behind = await get(`/api/tasks/${second}/why`);
    expect(behind).toMatchObject({ state: "pending", reasons: [{ code: "behind", ahead: 1 }] });
    expect(await get(`/api/tasks/${later}/why`)).toMatchObject({
      reasons: [{ code: "scheduled", inMs: 3_598_000 }],
    });
    await asked("PUT", "/v1/pauses", { kind: "queue", name: "q", reason: "upgrade" });
    expect(await reasons(app, first)).toEqual(["paused"]);
    await asked("POST", `/api/tasks/${first}/cancel`);
    expect(await reasons(app, first)).toEqual(["cancelled"]);
    expect((await ask("GET", `/api/tasks/${"0".repeat(36)}/why`)).body.code).toBe("UNKNOWN_TASK");
  });

  test("names the tasks of its concurrency key that it waits for", async () => {
    const app = await open();
    const { asked, get } = app;
    const concurrency = { key: "ada" };
    const add = async () => (await asked("POST", "/api/tasks", { task_data: 1, concurrency })).id;
    const [first, second] = [(await add()) as string, (await add()) as string];
    await asked("POST", "/api/tasks/next", { processor: "w", limit: 2 });
    expect(await get(`/api/tasks/${second}/why`)).toMatchObject({
      reasons: [
        {
          code: "key",
          text: `of the concurrency key ada, 1 task runs at a time: ${first} (w)`,
        },
      ],
    });
    expect((await get("/v1/tasks/keys")).items).toMatchObject([
      { key: "ada", perKey: 1, pending: 1, by: [{ id: first, state: "running", holder: "w" }] },
    ]);
    expect((await get("/v1/tasks/keys?queue=default&kind=default&key=joan")).items).toEqual([]);
  });

  test("reads a long queue once for all callers", async () => {
    const app = await open();
    const { asked, stores, clock } = app;
    const list = vi.spyOn(stores.tasks, "list");
    const { id } = await asked("POST", "/api/tasks", { task_data: 1 });
    await asked("POST", "/api/tasks", { task_data: 2 });
    for (let n = 0; n < 5; n += 1) expect(await reasons(app, id)).toEqual(["noWorker"]);
    expect(list).toHaveBeenCalledTimes(1);
    await clock.advance(2_000);
    await reasons(app, id);
    expect(list).toHaveBeenCalledTimes(2);
  });
});
