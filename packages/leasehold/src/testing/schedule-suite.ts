/**
 * The conformance suite of schedules: every engine that keeps them passes it, and so can yours. It holds a store against
 * the port (tasks/schedules/port.ts).
 */
import { newLeaseId, systemRandom } from "../env/index.js";
import type { ScheduleDeclaration } from "../tasks/schedules/port.js";
import type { TestFramework } from "./framework.js";
import { DECLARATION, Fixture, HOUR_MS, type OpenedScheduleStore } from "./schedule-fixture.js";
import { listing, scheduledTasks, ticking } from "./schedule-tasks.js";
import type * as suite from "./suite.js";
import { defineSuite } from "./suite.js";

/** What the suite needs to know of an engine. */
export interface ScheduleHarness {
  /** The prefix of the test names. */
  readonly name: string;
  readonly vitest: TestFramework;
  /** Called once; all tests share the store, each in a namespace of its own. No other process may tick. */
  open(): Promise<OpenedScheduleStore>;
}

type Section = suite.Section<Fixture>;

const declaring: Section = (test, expect) => {
  test("adds a schedule, and changes nothing when it is declared again", async (fixture) => {
    expect(await fixture.store.get(fixture.key())).toBe(null);
    expect(await fixture.declare()).toBe("added");
    const view = await fixture.view();
    const { declaredAt, lastFireAt, ...rest } = view;
    expect(rest).toEqual({
      namespace: fixture.namespace,
      name: "nightly",
      ...DECLARATION,
      paused: null,
      waiting: 0,
      fired: 0,
      skipped: 0,
      lastTask: null,
    });
    expect(Math.abs(Date.parse(lastFireAt) - Date.parse(declaredAt))).toBeLessThanOrEqual(1);
    await fixture.pass(5);
    expect(await fixture.declare()).toBe("none");
    const again = await fixture.view();
    expect(again.lastFireAt).toBe(lastFireAt);
    expect(Date.parse(again.declaredAt)).toBeGreaterThan(Date.parse(declaredAt));
  });

  test("keeps every field of a declaration", async (fixture) => {
    const declaration: ScheduleDeclaration = {
      cron: "0 2 * * *",
      timeZone: "Europe/Zurich",
      everyMs: null,
      catchUp: { most: 7 },
      overlap: "queue",
      jitterMs: 90_000,
      task: {
        ...DECLARATION.task,
        data: null,
        retain: { doneMs: null, deadMs: 0 },
        concurrency: null,
      },
    };
    await fixture.declare(declaration);
    expect(await fixture.view()).toMatchObject(declaration);
    await fixture.declare({ ...declaration, catchUp: "none", overlap: "allow" });
    expect(await fixture.view()).toMatchObject({ catchUp: "none", overlap: "allow" });
  });

  test("changes a schedule, which then refuses a tick of before", async (fixture) => {
    await fixture.declare();
    const before = await fixture.dueNow();
    const task = { ...DECLARATION.task, data: 2 };
    expect(await fixture.declare({ task })).toBe("changed");
    expect(await fixture.fire(before, ["a"])).toBe("moved");
    expect(await fixture.made()).toEqual([]);
    const due = await fixture.dueNow();
    expect(due.lastFireAtMs).toBe(before.lastFireAtMs);
    expect(await fixture.fire(due, ["b"])).toBe("fired");
    const made = await fixture.tasks.get({ namespace: fixture.namespace, id: "b" });
    expect(made?.data).toBe(2);
  });

  test("begins anew where the fire times change, and only there", async (fixture) => {
    await fixture.declare();
    const { lastFireAt } = await fixture.view();
    await fixture.pass(5);
    await fixture.declare({ jitterMs: 5 });
    expect((await fixture.view()).lastFireAt).toBe(lastFireAt);
    await fixture.fire(await fixture.dueNow(), []);
    expect(await fixture.due()).toBe(null);
    await fixture.pass(1_005);
    await fixture.declare({ jitterMs: 5, everyMs: 2 * HOUR_MS });
    const begun = await fixture.view();
    expect(Date.parse(begun.lastFireAt)).toBeGreaterThan(Date.parse(lastFireAt) + 1_000);
    expect(await fixture.due()).toMatchObject({ lastFireAtMs: Date.parse(begun.lastFireAt) });
  });

  test("begins anew where any one of what the fire times depend on changes", async (fixture) => {
    const cron = { cron: "0 3 * * *", everyMs: null };
    await fixture.declare(cron);
    for (const change of [
      { ...cron, timeZone: "Asia/Tokyo" },
      { cron: "0 4 * * *", everyMs: null, timeZone: "Asia/Tokyo" },
      { everyMs: HOUR_MS },
      { everyMs: 2 * HOUR_MS },
    ]) {
      await fixture.fire(await fixture.dueNow(), []);
      const { lastFireAt } = await fixture.view();
      await fixture.pass(1_005);
      expect(await fixture.declare(change)).toBe("changed");
      const begun = await fixture.view();
      expect(Date.parse(begun.lastFireAt)).toBeGreaterThan(Date.parse(lastFireAt));
      expect(await fixture.due()).toMatchObject({ lastFireAtMs: Date.parse(begun.lastFireAt) });
    }
  });

  test("removes a schedule, whose tasks stay", async (fixture) => {
    await fixture.declare();
    await fixture.fire(await fixture.dueNow(), ["a"]);
    expect(await fixture.store.remove(fixture.key())).toBe(true);
    expect(await fixture.store.remove(fixture.key())).toBe(false);
    expect(await fixture.store.get(fixture.key())).toBe(null);
    expect(await fixture.made()).toEqual(["a"]);
    expect(await fixture.declare()).toBe("added");
    expect((await fixture.view()).fired).toBe(0);
  });

  test("refuses a tick that read a schedule which was removed and declared anew", async (fixture) => {
    await fixture.declare();
    const before = await fixture.dueNow();
    await fixture.store.remove(fixture.key());
    await fixture.declare();
    expect(await fixture.fire(before, ["a"])).toBe("moved");
  });

  test("lists by name, in pages", async (fixture) => {
    for (const name of ["c", "a/1", "é", "b"]) await fixture.declare({}, name);
    const { namespace } = fixture;
    const first = await fixture.store.list({ namespace, limit: 3 });
    expect(first.items.map(({ name }) => name)).toEqual(["a/1", "b", "c"]);
    const cursor = first.nextCursor ?? "";
    const second = await fixture.store.list({ namespace, limit: 3, cursor });
    expect(second.items.map(({ name }) => name)).toEqual(["é"]);
    expect(second.nextCursor).toBe(null);
  });
};

const firing: Section = (test, expect) => {
  test("is due from its declaration on, and then when a tick says so", async (fixture) => {
    await fixture.declare();
    const due = await fixture.dueNow();
    const { task: _, ...declaration } = DECLARATION;
    expect(due).toMatchObject({ declaration, waiting: [], isRunning: false });
    expect(await fixture.fire(due, [], { dueAtMs: due.lastFireAtMs + 200 })).toBe("fired");
    await fixture.pass(250);
    expect(await fixture.due()).not.toBe(null);
    await fixture.fire(await fixture.dueNow(), []);
    expect(await fixture.due()).toBe(null);
  });

  test("makes tasks as the schedule says", async (fixture) => {
    await fixture.declare();
    const due = await fixture.dueNow();
    await fixture.fire(due, ["first", "second"], { skipped: 3 });
    expect(await fixture.made()).toEqual(["first", "second"]);
    const task = await fixture.tasks.get({ namespace: fixture.namespace, id: "second" });
    const { kind, queue, priority, data, maxAttempts, crashLimit, concurrency } = DECLARATION.task;
    const expected = {
      concurrency,
      kind,
      queue,
      priority,
      data,
      maxAttempts,
      crashLimit,
      state: "pending",
    };
    expect(task).toMatchObject({ ...expected, dedupeKey: null });
    expect(Date.parse(task?.scheduledAt ?? "")).toBe(due.lastFireAtMs + 1_000);
    const { lastFireAt, ...view } = await fixture.view();
    expect(Date.parse(lastFireAt)).toBe(due.lastFireAtMs + 1_000);
    const lastTask = { id: "second", state: "pending", finishedAt: null, error: null };
    expect(view).toMatchObject({ fired: 2, skipped: 3, lastTask });
  });

  test(
    "keeps its tasks as long as their state says",
    async (fixture) => {
      // Cancelled ones are kept as dead ones are.
      const kept = { ...DECLARATION.task, retain: { doneMs: 0, deadMs: null } };
      const fleeting = { ...DECLARATION.task, retain: { doneMs: null, deadMs: 0 } };
      for (const [name, task] of Object.entries({ kept, fleeting })) {
        await fixture.declare({ task }, name);
        await fixture.fire(await fixture.dueNow(name), [name]);
        await fixture.finish(name);
      }
      await fixture.pass(1);
      await fixture.tasks.collect(1_000);
      expect(await fixture.made()).toEqual(["kept"]);
    },
    ({ tasks }) =>
      tasks.capabilities.reaps ? "a server behind this store collects by itself" : null,
  );

  test("shows the beginning of a long error of its last task", async (fixture) => {
    const { namespace, tasks } = fixture;
    await fixture.declare();
    const { queue } = DECLARATION.task;
    const errors = ["é".repeat(512), "é".repeat(513)];
    const shown: unknown[] = [];
    for (const error of errors) {
      await fixture.store.runNow({ ...fixture.key(), taskId: `${error.length}` });
      const asked = {
        claimId: newLeaseId(systemRandom),
        holder: "w",
        kinds: null,
        limit: 1,
        ttlMs: 30_000,
      };
      const claimed = await tasks.claim({ namespace, queues: [queue], ...asked });
      if (claimed.status !== "claimed" || !claimed.tasks[0]) throw new Error("it is due");
      const { id, leaseId, token } = claimed.tasks[0];
      const failed = { namespace, id, leaseId, token, error, retryInMs: null, final: true };
      expect((await tasks.fail([failed]))[0]?.status).toBe("recorded");
      shown.push((await fixture.view()).lastTask?.error);
    }
    expect(shown).toEqual([errors[0], `${"é".repeat(200)}…`]);
    const { items } = await fixture.store.list({ namespace });
    expect(items.map(({ lastTask }) => lastTask?.error)).toEqual(shown.slice(1));
  });

  test("moves on once for all that read it", async (fixture) => {
    await fixture.declare();
    const due = await fixture.dueNow();
    const ids = Array.from({ length: 8 }, (_, n) => `task-${n}`);
    const answers = await Promise.all(ids.map((id) => fixture.fire(due, [id])));
    expect(answers.filter((status) => status === "fired")).toHaveLength(1);
    expect(answers.filter((status) => status === "moved")).toHaveLength(7);
    const made = await fixture.made();
    expect(made).toEqual([ids[answers.indexOf("fired")]]);
    expect(await fixture.fire(due, ["late"])).toBe("moved");
    expect((await fixture.view()).fired).toBe(1);
  });

  test("makes no second task of an id", async (fixture) => {
    await fixture.declare();
    await fixture.fire(await fixture.dueNow(), ["a"]);
    await fixture.store.remove(fixture.key());
    await fixture.declare();
    expect(await fixture.fire(await fixture.dueNow(), ["a", "b"])).toBe("fired");
    expect(await fixture.made()).toEqual(["a", "b"]);
  });

  test("keeps the fire times that wait", async (fixture) => {
    await fixture.declare({ overlap: "queue" });
    const due = await fixture.dueNow();
    const waiting = [due.lastFireAtMs + 1, due.lastFireAtMs + 2];
    await fixture.fire(due, ["a"], { waiting, dueAtMs: due.lastFireAtMs });
    expect((await fixture.view()).waiting).toBe(2);
    expect(await fixture.due()).toMatchObject({ waiting, isRunning: true });
    await fixture.finish("a");
    expect(await fixture.due()).toMatchObject({ waiting, isRunning: false });
    const { lastTask } = await fixture.view();
    expect(lastTask).toMatchObject({ id: "a", state: "cancelled", error: null });
    expect(Number.isFinite(Date.parse(lastTask?.finishedAt ?? ""))).toBe(true);
    const { namespace } = fixture;
    await fixture.tasks.delete([{ namespace, id: "a" }]);
    expect(await fixture.due()).toMatchObject({ isRunning: false });
    const deleted = { id: "a", state: null, finishedAt: null, error: null };
    expect((await fixture.view()).lastTask).toEqual(deleted);
  });
};

const operating: Section = (test, expect) => {
  test("is not due while it is paused, whatever is declared", async (fixture) => {
    await fixture.declare();
    const before = await fixture.dueNow();
    const request = { ...fixture.key(), by: "ada", reason: "the disk is full" };
    expect(await fixture.store.pause(request)).toBe("changed");
    const { paused } = await fixture.view();
    expect(paused?.reason).toBe("the disk is full");
    expect(await fixture.store.pause({ ...request, reason: "another one" })).toBe("unchanged");
    expect(await fixture.declare({ everyMs: 2 * HOUR_MS })).toBe("changed");
    expect((await fixture.view()).paused).toEqual(paused);
    expect(await fixture.due()).toBe(null);
    expect(await fixture.fire(before, ["a"])).toBe("moved");
    expect(await fixture.made()).toEqual([]);
  });

  test("goes on from now when it is resumed", async (fixture) => {
    await fixture.declare();
    const { lastFireAt } = await fixture.view();
    await fixture.store.pause({ ...fixture.key(), by: "ada", reason: null });
    await fixture.pass(20);
    expect(await fixture.store.resume(fixture.key())).toBe("changed");
    expect(await fixture.store.resume(fixture.key())).toBe("unchanged");
    const view = await fixture.view();
    expect(view.paused).toBe(null);
    expect(Date.parse(view.lastFireAt)).toBeGreaterThanOrEqual(Date.parse(lastFireAt) + 20);
    expect(await fixture.due()).not.toBe(null);
  });

  test("runs now, paused or not, once for each id, and leaves the fire times", async (fixture) => {
    await fixture.declare();
    const due = await fixture.dueNow();
    await fixture.fire(due, ["a"]);
    const { lastFireAt } = await fixture.view();
    await fixture.store.pause({ ...fixture.key(), by: "ada", reason: null });
    const run = { ...fixture.key(), taskId: "now" };
    expect(await fixture.store.runNow(run)).toEqual({ status: "enqueued", id: "now" });
    expect(await fixture.store.runNow(run)).toEqual({ status: "enqueued", id: "now" });
    expect(await fixture.made()).toEqual(["a", "now"]);
    const view = await fixture.view();
    expect(view).toMatchObject({ lastFireAt, fired: 2, lastTask: { id: "now" } });
  });

  test("knows nothing of a schedule that was never declared", async (fixture) => {
    const key = fixture.key("other");
    expect(await fixture.store.pause({ ...key, by: "ada", reason: null })).toBe("unknown");
    expect(await fixture.store.resume(key)).toBe("unknown");
    expect(await fixture.store.runNow({ ...key, taskId: "x" })).toEqual({ status: "unknown" });
    expect(await fixture.store.get(key)).toBe(null);
    expect(await fixture.made()).toEqual([]);
  });
};

/**
 * Tests a store of schedules against its port.
 * @example
 * ```ts
 * import { openStores } from "leasehold";
 * import { exerciseScheduleStore } from "leasehold/testing";
 * import * as vitest from "vitest";
 *
 * exerciseScheduleStore({
 *   name: "memory",
 *   vitest,
 *   async open() {
 *     const { schedules: store, tasks, close } = await openStores("memory:");
 *     if (!store?.ticking) throw new Error("memory keeps schedules");
 *     return { store, tasks, ticking: store.ticking, close };
 *   },
 * });
 * ```
 */
export function exerciseScheduleStore(harness: ScheduleHarness): void {
  defineSuite<OpenedScheduleStore, Fixture>({
    name: harness.name,
    kind: "schedules",
    vitest: harness.vitest,
    sections: [
      ["declaring", declaring],
      ["firing", firing],
      ["operating", operating],
      ["the tasks of schedules", scheduledTasks],
      ["a tick", ticking],
      ["list", listing],
    ],
    open: () => harness.open(),
    close: (opened) => opened.close(),
    fixtureOf: (opened, expect) => new Fixture(opened, expect),
  });
}
