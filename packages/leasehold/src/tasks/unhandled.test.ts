/** Due tasks by kind, as stores group them, and as a page of tasks shows them. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect, type Leasehold } from "../index.js";
import { defineTask } from "./define.js";
import { dueKindsOf, type TaskState, type TaskView, unhandledKinds } from "./index.js";
import type { DueKind } from "./port.js";

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
    const due = { queue: "default", version: 1, dueAt, startedAt: null };
    expect([...(found ?? [])].sort((a, b) => b.tasks - a.tasks)).toEqual([
      { ...due, kind: "many", tasks: 250 },
      { ...due, kind: "old", tasks: 2 },
      { ...due, kind: "urgent", queue: "other", tasks: 1 },
    ]);
    const some = await dueKinds?.({ dueForMs: 0, limit: 10 });
    expect(some?.reduce((sum, kind) => sum + kind.tasks, 0)).toBe(10);
    expect(await dueKinds?.({ dueForMs: 3_600_000, limit: 10 })).toEqual([]);
  });

  it("counts each version by itself, of some queues and kinds if that is asked for", async () => {
    const { tasks } = leasehold;
    for (const version of [1, 2, 2]) {
      for (const queue of ["here", "there"]) {
        await tasks.enqueue(defineTask("versioned", { version }), null, { queue });
      }
    }
    await tasks.enqueue(defineTask("of another kind"), null, { queue: "here" });
    const query = { dueForMs: 0, limit: 1_000, queues: ["here"], kinds: ["versioned"] };
    const found = (await dueKindsOf(tasks)?.(query)) ?? [];
    const counted = found.map(({ queue, kind, version, tasks }) => [queue, kind, version, tasks]);
    expect(counted.sort()).toEqual([
      ["here", "versioned", 1, 1],
      ["here", "versioned", 2, 2],
    ]);
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

describe("kinds that no worker handles", () => {
  const NOW_MS = Date.UTC(2020, 0, 1);
  const at = (agoMs: number) => new Date(NOW_MS - agoMs).toISOString();
  const due = (kind: string, change: Partial<DueKind> = {}): DueKind => ({
    queue: "default",
    kind,
    version: 1,
    tasks: 1,
    dueAt: at(60_000),
    startedAt: null,
    ...change,
  });
  /** @param tasks those of each kind, by state */
  const find = (
    kinds: readonly DueKind[],
    around: Partial<Parameters<typeof unhandledKinds>[1]> = {},
    tasks: Record<string, Partial<Record<TaskState, Partial<TaskView>>>> = {},
  ) =>
    unhandledKinds(
      {
        dueKinds: async () => kinds,
        list: async ({ kind = "", queue, states = [] }) => ({
          items: states.flatMap((state) => {
            const task = tasks[`${queue}/${kind}`]?.[state];
            return task ? [{ version: 1, ...task } as TaskView] : [];
          }),
          nextCursor: null,
        }),
      },
      { nowMs: NOW_MS, claimers: [], pausedQueues: [], ...around },
    );
  const names = async (...given: Parameters<typeof find>) =>
    (await find(...given)).map(
      ({ queue, kind, version }) => `${queue}/${kind}${version > 1 ? ` ${version}` : ""}`,
    );

  it("are those that no claim of their queue names, in a queue that is not paused", async () => {
    const kinds = [
      due("a"),
      due("b"),
      due("a", { queue: "other" }),
      due("a", { queue: "any" }),
      due("a", { queue: "paused" }),
    ];
    const claimers = [
      { queues: ["default"], kinds: ["a"] },
      { queues: ["elsewhere", "any"], kinds: null },
    ];
    const pausedQueues = ["paused"];
    expect(await names(kinds, { claimers, pausedQueues })).toEqual(["default/b", "other/a"]);
  });

  it("are those of which none runs, and none was taken or ended within two minutes", async () => {
    const [recent, before] = [at(119_000), at(120_000)];
    const kinds = ["runs", "ended", "endedBefore", "retried", "retriedBefore", "other"].map(
      (kind) => due(kind),
    );
    const started = [due("started", { startedAt: recent }), due("old", { startedAt: before })];
    const tasks = {
      "default/runs": { running: {} },
      "default/ended": { dead: { finishedAt: recent } },
      "default/endedBefore": { done: { finishedAt: before } },
      "default/retried": { pending: { startedAt: recent } },
      "default/retriedBefore": { pending: { startedAt: before } },
      // Of another queue.
      "else/other": { running: {} },
    };
    expect(await names([...kinds, ...started], {}, tasks)).toEqual([
      "default/endedBefore",
      "default/retriedBefore",
      "default/other",
      "default/old",
    ]);
  });

  it("are later versions too, which only workers of such versions handle", async () => {
    const kinds = [1, 2, 3].map((version) => due("a", { version }));
    const claim = { queues: ["default"], kinds: ["a"] };
    expect(await names(kinds, { claimers: [claim] })).toEqual(["default/a 2", "default/a 3"]);
    expect(await names(kinds, { claimers: [claim, { ...claim, versions: { a: 2 } }] })).toEqual([
      "default/a 3",
    ]);
    expect(await names(kinds, { claimers: [{ queues: ["default"], kinds: null }] })).toEqual([]);
    const recent = at(60_000);
    for (const seen of [
      { running: { version: 2 } },
      { done: { version: 2, finishedAt: recent } },
      { pending: { version: 2, startedAt: recent } },
    ]) {
      expect(await names(kinds, {}, { "default/a": seen })).toEqual(["default/a 3"]);
    }
  });

  it("are the twenty with the most tasks, the largest first", async () => {
    const kinds = Array.from({ length: 40 }, (_, tasks) => due(`k${tasks}`, { tasks }));
    const found = await find(kinds);
    expect(found.map(({ tasks }) => tasks)).toEqual(
      Array.from({ length: 20 }, (_, rank) => 39 - rank),
    );
    expect(found[0]).toEqual({
      queue: "default",
      kind: "k39",
      version: 1,
      tasks: 39,
      complete: true,
      dueAt: at(60_000),
    });
    const [many] = await find([due("many", { tasks: 19_999 }), due("one")]);
    expect(many?.complete).toBe(false);
  });

  it("are counted by a page of tasks if the store cannot group them: due since the later of two times", async () => {
    const task = (kind: string, createdAgoMs: number, dueAgoMs: number, startedAgoMs?: number) =>
      ({
        queue: "default",
        kind,
        version: 1,
        createdAt: at(createdAgoMs),
        scheduledAt: at(dueAgoMs),
        startedAt: startedAgoMs === undefined ? null : at(startedAgoMs),
      }) as TaskView;
    const page = [
      task("a", 20_000, 20_000),
      task("a", 50_000, 70_000),
      task("a", 90_000, 30_000),
      task("not due for long", 90_000, 9_999),
      task("taken", 300_000, 60_000, 119_000),
      task("taken", 300_000, 60_000, 200_000),
      task("taken", 300_000, 60_000),
      task("also taken", 300_000, 60_000, 200_000),
      task("also taken", 300_000, 60_000, 119_000),
    ];
    const list = async ({ kind }: { kind?: string }) => {
      return { items: kind === undefined ? page : [], nextCursor: null };
    };
    const around = { nowMs: NOW_MS, claimers: [], pausedQueues: [] };
    expect(await unhandledKinds({ list }, around)).toEqual([
      { queue: "default", kind: "a", version: 1, tasks: 3, complete: true, dueAt: at(50_000) },
    ]);
  });
});
