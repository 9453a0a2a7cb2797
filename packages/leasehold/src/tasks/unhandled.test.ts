/** Due tasks by kind, as stores group them, and as a page of tasks shows them. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect, type Leasehold } from "../index.js";
import { defineTask } from "./define.js";
import { dueKindsOf, unhandledKinds } from "./index.js";

const LATER_MS = 20_000;

describe.each([["memory"], ["pglite"]])("due tasks by kind in %s", (engine) => {
  let leasehold: Leasehold;
  beforeAll(async () => {
    leasehold = await connect(`${engine}:`);
  }, 60_000);
  afterAll(() => leasehold.close());

  it("counts those that are due, up to a limit, and sees who was claimed", async () => {
    const { tasks } = leasehold;
    const add = (kind: string, count: number, options: object = {}) =>
      tasks.enqueueAll(
        defineTask(kind),
        Array.from({ length: count }, () => ({ data: null, ...options })),
      );
    await add("old", 2);
    await add("many", 250);
    await add("urgent", 1, { queue: "other" });
    await add("later", 1, { scheduledAt: new Date(Date.now() + 3_600_000) });
    const dueKinds = dueKindsOf(tasks);
    const found = await dueKinds?.({ dueForMs: 0, limit: 1_000 });
    const dueAt = expect.stringMatching(/^\d{4}-.*Z$/);
    const due = { queue: "default", dueAt, startedAt: null };
    expect([...(found ?? [])].sort((a, b) => b.tasks - a.tasks)).toEqual([
      { ...due, kind: "many", tasks: 250 },
      { ...due, kind: "old", tasks: 2 },
      { ...due, kind: "urgent", queue: "other", tasks: 1 },
    ]);
    const some = await dueKinds?.({ dueForMs: 0, limit: 10 });
    expect(some?.reduce((sum, kind) => sum + kind.tasks, 0)).toBe(10);
    expect(await dueKinds?.({ dueForMs: 3_600_000, limit: 10 })).toEqual([]);
  });

  it("says that a page of tasks may not show all", async () => {
    const { tasks } = leasehold;
    const surroundings = {
      nowMs: Date.now() + LATER_MS,
      claimers: [],
      pausedQueues: [],
    };
    const list = tasks.list.bind(tasks);
    const [many] = await unhandledKinds({ list }, surroundings);
    expect(many).toMatchObject({ kind: "many", complete: false });
  });
});
