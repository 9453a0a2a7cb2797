/** The tasks of schedules: what they have of the declaration, and what a schedule forgets of them and keeps. */
import { newLeaseId, systemRandom } from "../env/index.js";
import type { FailOutcome } from "../tasks/port.js";
import { DECLARATION, type Fixture, HOUR_MS } from "./schedule-fixture.js";
import type * as suite from "./suite.js";
import { isDue } from "./task-suite/fixture.js";
import { until, Watching } from "./waiting.js";

/** Fails the only due task of the declared queue. */
async function failNext(
  { namespace, tasks }: Fixture,
  retryInMs: number | null,
): Promise<FailOutcome | undefined> {
  const claimed = await tasks.claim({
    namespace,
    claimId: newLeaseId(systemRandom),
    holder: "w",
    queues: [DECLARATION.task.queue],
    kinds: null,
    limit: 1,
    ttlMs: 60_000,
  });
  if (claimed.status !== "claimed" || !claimed.tasks[0]) throw new Error("it is due");
  const { id, leaseId, token } = claimed.tasks[0];
  const [outcome] = await tasks.fail([{ namespace, id, leaseId, token, error: "e", retryInMs }]);
  return outcome;
}

export const scheduledTasks: suite.Section<Fixture> = (test, expect) => {
  const task = async ({ namespace, tasks }: Fixture, id: string) => {
    const found = await tasks.get({ namespace, id });
    if (!found) throw new Error(`the task ${id} exists`);
    return found;
  };

  test("have the version of their kind, and the key with its rate", async (fixture) => {
    const rate = { limit: 5, perMs: HOUR_MS };
    const concurrency = { key: "sales", perKey: 3, order: "fifo", rate } as const;
    const declare = (change: object) =>
      fixture.declare({
        task: { ...DECLARATION.task, concurrency: { ...concurrency, ...change } },
      });
    expect(await declare({})).toBe("added");
    expect((await fixture.view()).task.concurrency).toEqual(concurrency);
    await fixture.fire(await fixture.dueNow(), ["fired"]);
    const longer = { rate: { limit: 5, perMs: 2 * HOUR_MS } };
    expect(await declare(longer)).toBe("changed");
    const more = { rate: { limit: 6, perMs: 2 * HOUR_MS } };
    expect(await declare(more)).toBe("changed");
    expect(await declare(more)).toBe("none");
    await fixture.store.runNow({ ...fixture.key(), taskId: "now" });
    expect(await task(fixture, "fired")).toMatchObject({ version: 2, concurrency });
    const changed = { ...concurrency, ...more };
    expect(await task(fixture, "now")).toMatchObject({ version: 2, concurrency: changed });
  });

  test("wait after a failure as the schedule says", async (fixture) => {
    const { task: declared } = DECLARATION;
    const own = {
      ...declared,
      backoff: { firstMs: 60_000, longestMs: 90_000, factor: 1.25, jitter: 0 },
      concurrency: null,
    };
    await fixture.declare({ task: own });
    const due = await fixture.dueNow();
    const fires = [{ id: "fired", scheduledAtMs: due.lastFireAtMs }];
    await fixture.fire(due, [], { fires });
    const inMs = async (retryInMs: number | null) => {
      const outcome = await failNext(fixture, retryInMs);
      if (outcome?.status !== "recorded") throw new Error("it fails");
      return outcome.retryInMs ?? 0;
    };
    expect(await inMs(null)).toBe(60_000);
    await fixture.store.runNow({ ...fixture.key(), taskId: "now" });
    expect(await inMs(0)).toBe(0);
    expect(await inMs(0)).toBe(0);
    // 60,000 x 1.25 x 1.25 would be 93,750.
    expect(await inMs(null)).toBe(90_000);
  });

  test(
    "are notified when they are due: at a fire time and when run now, and not before their jitter",
    async (fixture) => {
      const { namespace, tasks } = fixture;
      const watching = new Watching((options) => tasks.watch(namespace, options));
      await until(expect, "the first event of watch", () => watching.events.length > 0);
      const queues = () => watching.events.flatMap((event) => (isDue(event) ? event.queue : []));
      for (const [name, afterMs] of [["later", HOUR_MS] as const, ["due", 0] as const]) {
        await fixture.declare(
          { task: { ...DECLARATION.task, queue: name, concurrency: null } },
          name,
        );
        const due = await fixture.dueNow(name);
        const fires = [{ id: name, scheduledAtMs: due.lastFireAtMs + afterMs }];
        expect(await fixture.fire(due, [], { fires })).toBe("fired");
      }
      await until(expect, "a notification of the fire time", () => queues().length > 0);
      await fixture.store.runNow({ ...fixture.key("later"), taskId: "now" });
      await until(expect, "a notification of the run", () => queues().length > 1);
      expect(queues()).toEqual(["due", "later"]);
      await watching.stop();
    },
    ({ tasks }) => (tasks.capabilities.watch === "push" ? null : "the store's watch polls"),
  );

  test("that are made beside the fire times leave what waits, and when it is due", async (fixture) => {
    await fixture.declare({ overlap: "queue" });
    const due = await fixture.dueNow();
    const waiting = [due.lastFireAtMs + 1, due.lastFireAtMs + 2];
    await fixture.fire(due, ["a"], { waiting, skipped: 4 });
    await fixture.store.runNow({ ...fixture.key(), taskId: "now" });
    expect(await fixture.view()).toMatchObject({ waiting: 2, fired: 2, skipped: 4 });
    expect(await fixture.due()).toBe(null);
  });

  test("are of the schedule's own namespace, as is all that is done to it", async (fixture) => {
    const { store, tasks } = fixture;
    const namespace = `${fixture.namespace}-other`;
    const abroad = { ...fixture.key(), namespace };
    await fixture.declare({ overlap: "queue" });
    await store.declare({ ...abroad, declaration: { ...DECLARATION, jitterMs: 7 } });
    await fixture.fire(await fixture.dueNow(), ["a"], { dueAtMs: Date.parse("2001-01-01") });
    expect(await store.get(abroad)).toMatchObject({ fired: 0, lastTask: null, jitterMs: 7 });
    await store.runNow({ ...abroad, taskId: "a" });
    const both = [fixture.key(), abroad].map((key) => ({ namespace: key.namespace, id: "a" }));
    await tasks.cancel(both.slice(0, 1));
    expect((await fixture.view()).lastTask).toMatchObject({ id: "a", state: "cancelled" });
    expect(await fixture.due()).toMatchObject({ isRunning: false });
    expect((await store.get(abroad))?.lastTask).toMatchObject({ id: "a", state: "pending" });
    expect(await store.pause({ ...abroad, by: "ada", reason: "full" })).toBe("changed");
    expect((await fixture.view()).paused).toBe(null);
    const { items } = await store.list({ namespace });
    expect(items.map((item) => [item.namespace, item.paused?.reason])).toEqual([
      [namespace, "full"],
    ]);
    await store.pause({ ...fixture.key(), by: "ada", reason: "slow" });
    expect(await store.resume(fixture.key())).toBe("changed");
    expect((await store.get(abroad))?.paused?.reason).toBe("full");
    expect(await store.remove(fixture.key())).toBe(true);
    expect(await store.get(abroad)).toMatchObject({ jitterMs: 7, fired: 1 });
  });

  test("counts the tasks that it has made, and no others", async (fixture) => {
    await fixture.declare();
    await fixture.fire(await fixture.dueNow(), ["a"]);
    await fixture.store.remove(fixture.key());
    await fixture.declare();
    await fixture.fire(await fixture.dueNow(), ["a", "b"]);
    expect(await fixture.made()).toEqual(["a", "b"]);
    expect((await fixture.view()).fired).toBe(1);
  });

  test("takes a declaration of the same content for the same, however it is written", async (fixture) => {
    await fixture.declare();
    const entries = Object.entries(DECLARATION.task).reverse();
    const task = Object.fromEntries(entries) as unknown as typeof DECLARATION.task;
    const before = await fixture.dueNow();
    expect(await fixture.declare({ task })).toBe("none");
    // As many fire times as "last".
    expect(await fixture.declare({ catchUp: { most: 1 } })).toBe("none");
    expect(await fixture.fire(before, ["a"])).toBe("fired");
  });
};

export const listing: suite.Section<Fixture> = (test, expect) => {
  test("ends exactly where there are no more, and throws at a cursor that no page has given", async (fixture) => {
    const { namespace, store } = fixture;
    for (const name of ["a", "b", "c", "d"]) await fixture.declare({}, name);
    const first = await store.list({ namespace, limit: 2 });
    const second = await store.list({ namespace, limit: 2, cursor: first.nextCursor ?? "" });
    expect([...first.items, ...second.items].map(({ name }) => name)).toEqual(["a", "b", "c", "d"]);
    expect(second.nextCursor).toBe(null);
    const wrong = store.list({ namespace, cursor: "\n" });
    const error = await wrong.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "INVALID_OPTION", path: "cursor" });
  });
};

export const ticking: suite.Section<Fixture> = (test, expect) => {
  test("refuses a tick of before a pause, also once it is over", async (fixture) => {
    await fixture.declare();
    const before = await fixture.dueNow();
    await fixture.store.pause({ ...fixture.key(), by: "ada", reason: null });
    await fixture.store.resume(fixture.key());
    expect(await fixture.fire(before, ["a"])).toBe("moved");
    expect(await fixture.made()).toEqual([]);
  });

  test("refuses a tick that has not seen a task made beside the fire times", async (fixture) => {
    await fixture.declare();
    const before = await fixture.dueNow();
    await fixture.store.runNow({ ...fixture.key(), taskId: "now" });
    expect(await fixture.fire(before, ["a"])).toBe("moved");
    expect(await fixture.made()).toEqual(["now"]);
    expect(await fixture.due()).toMatchObject({ isRunning: true });
  });

  test("never sets the last fire time back, whatever its clock says", async (fixture) => {
    await fixture.declare();
    const due = await fixture.dueNow();
    const lastFireAtMs = due.lastFireAtMs + 24 * HOUR_MS;
    await fixture.fire(due, [], { lastFireAtMs });
    const last = async () => Date.parse((await fixture.view()).lastFireAt);
    expect(await last()).toBe(lastFireAtMs);
    await fixture.store.pause({ ...fixture.key(), by: "ada", reason: null });
    await fixture.store.resume(fixture.key());
    expect(await last()).toBe(lastFireAtMs);
    expect(await fixture.declare({ everyMs: 2 * HOUR_MS })).toBe("changed");
    expect(await last()).toBe(lastFireAtMs);
  });

  test("shows who paused a schedule and why, and nothing of an earlier pause", async (fixture) => {
    const { store } = fixture;
    await fixture.declare();
    const { lastFireAt } = await fixture.view();
    await store.pause({ ...fixture.key(), by: "ada", reason: "the disk is full" });
    const { paused: first } = await fixture.view();
    expect(first).toMatchObject({ by: "ada", reason: "the disk is full" });
    expect(Date.parse(first?.at ?? "")).toBeGreaterThanOrEqual(Date.parse(lastFireAt));
    await store.resume(fixture.key());
    await store.pause({ ...fixture.key(), by: "joan", reason: null });
    expect((await fixture.view()).paused).toMatchObject({ by: "joan", reason: null });
  });

  test("reads the schedule first that has been due for longest", async (fixture) => {
    const dueForHours = { b: 2, c: 3, a: 1 };
    for (const [name, hours] of Object.entries(dueForHours)) {
      await fixture.declare({}, name);
      const due = await fixture.dueNow(name);
      const dueAtMs = due.lastFireAtMs - hours * HOUR_MS;
      await fixture.fire(due, [], { dueAtMs, lastFireAtMs: due.lastFireAtMs });
    }
    expect(await fixture.dueNames()).toEqual(["c", "b", "a"]);
  });

  test("leaves out the revisions that a tick cannot move on, and reads those behind them", async (fixture) => {
    for (const name of ["a", "b", "c"]) await fixture.declare({}, name);
    const all = await fixture.dueRevisions(1_000);
    const last = all.at(-1);
    expect(await fixture.dueRevisions(1, all.slice(0, -1))).toEqual([last]);
    expect(await fixture.dueRevisions(1_000, all)).toEqual([]);
    expect(await fixture.dueRevisions(1_000, [])).toEqual(all);
    await fixture.declare({ jitterMs: 1 }, "a");
    expect(await fixture.dueRevisions(1, all)).toHaveLength(1);
  });

  test("says when the next schedule is due, but for those that are paused", async (fixture) => {
    await fixture.declare();
    const due = await fixture.dueNow();
    const soonMs = 10 * 60_000;
    const dueAtMs = due.lastFireAtMs + soonMs;
    await fixture.fire(due, [], { dueAtMs, lastFireAtMs: due.lastFireAtMs });
    const inMs = (await fixture.dueInMs()) ?? Number.POSITIVE_INFINITY;
    expect(inMs).toBeGreaterThan(0);
    expect(inMs).toBeLessThanOrEqual(soonMs);
    await fixture.store.pause({ ...fixture.key(), by: "ada", reason: null });
    expect((await fixture.dueInMs()) ?? Number.POSITIVE_INFINITY).toBeGreaterThan(soonMs);
  });
};
