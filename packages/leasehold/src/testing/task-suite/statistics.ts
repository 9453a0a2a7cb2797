/** Statistics by queue and kind. */
import type { DueKindsQuery, TaskStats, TaskStatsQuery } from "../../tasks/port.js";
import { NO_TASKS } from "../../tasks/port.js";
import type { Fixture, Need, Section } from "./fixture.js";

const HOUR_MS = 3_600_000;
const NONE = { ...NO_TASKS, due: 0, dueForMs: null };

const needsDueKinds: Need = ({ store }) =>
  store.dueKinds ? null : "the store does not group its due tasks";

export const statistics: Section = (test, expect) => {
  const stats = ({ store, namespace }: Fixture, query: Partial<TaskStatsQuery> = {}) =>
    store.stats({ namespace, limit: 1_000, ...query });
  /** Without what depends on time. */
  const counted = (items: readonly TaskStats[]) =>
    items.map(({ dueForMs, ...item }) => ({ ...item, isDue: dueForMs !== null }));

  test("counts by queue and kind, within its filters", async (fixture) => {
    expect(await stats(fixture)).toEqual({ items: [], complete: true });
    const { createdAt } = await fixture.view(await fixture.add({ queue: "a", kind: "one" }));
    const later = new Date(Date.parse(createdAt) + HOUR_MS).toISOString();
    await fixture.add({ queue: "a", kind: "one", scheduledAt: later });
    await fixture.add({ queue: "a", kind: "two", scheduledAt: later });
    const [first, second, third] = await Promise.all(
      [1, 2, 3].map(async () => {
        await fixture.add({ queue: "b", kind: "one" });
        return fixture.hold({ queues: ["b"], limit: 1 });
      }),
    );
    if (first) await fixture.complete(first);
    if (second) await fixture.fail(second, { final: true });
    if (third) expect((await fixture.view(third)).state).toBe("running");
    await fixture.cancel(await fixture.add({ queue: "b", kind: "two" }));
    const a = [
      { ...NONE, queue: "a", kind: "one", pending: 2, due: 1, isDue: true },
      { ...NONE, queue: "a", kind: "two", pending: 1, isDue: false },
    ].map(({ dueForMs: _, ...item }) => item);
    const b = [
      { ...NONE, queue: "b", kind: "one", running: 1, done: 1, dead: 1, isDue: false },
      { ...NONE, queue: "b", kind: "two", cancelled: 1, isDue: false },
    ].map(({ dueForMs: _, ...item }) => item);
    const all = await stats(fixture);
    expect(all.complete).toBe(true);
    expect(counted(all.items)).toEqual([...a, ...b]);
    expect(counted((await stats(fixture, { queues: ["b"] })).items)).toEqual(b);
    const two = await stats(fixture, { queues: ["b", "a"], kinds: ["two"] });
    expect(counted(two.items)).toEqual([a[1], b[1]]);
    expect((await stats(fixture, { queues: [] })).items).toEqual([]);
    const unfinished = await stats(fixture, { unfinishedOnly: true });
    const { done: _done, dead: _dead, ...running } = b[0] ?? {};
    expect(counted(unfinished.items)).toEqual([...a, { ...running, done: 0, dead: 0 }]);
  });

  test("counts only the versions that a claim takes, if it is asked for some", async (fixture) => {
    for (const version of [1, 2, 3]) {
      await fixture.add({ kind: "one", version });
      await fixture.add({ kind: "two", version });
    }
    const due = async (query: Partial<TaskStatsQuery>) =>
      (await stats(fixture, query)).items.map(({ kind, due }) => [kind, due]);
    const kinds = ["one", "two"];
    const all = [
      ["one", 3],
      ["two", 3],
    ];
    expect(await due({ kinds })).toEqual(all);
    expect(await due({ kinds, versions: { two: 2 } })).toEqual([
      ["one", 1],
      ["two", 2],
    ]);
    expect(await due({ kinds: ["two"], versions: {}, unfinishedOnly: true })).toEqual([["two", 1]]);
    // As a claim for any kind.
    expect(await due({ versions: { two: 2 } })).toEqual(all);
  });

  test("tells how long the oldest has been due", async (fixture) => {
    await fixture.add();
    await fixture.pass(200);
    await fixture.add();
    const [item] = (await stats(fixture)).items;
    expect(item).toMatchObject({ pending: 2, due: 2 });
    expect((item?.dueForMs ?? 0) >= 200).toBe(true);
  });

  test("counts a task as due since it was added, if it was to be earlier", async (fixture) => {
    await fixture.add({ scheduledAt: "2001-02-03T04:05:06.789Z" });
    const [item] = (await stats(fixture)).items;
    expect(item).toMatchObject({ pending: 1, due: 1 });
    expect(item?.dueForMs).toBeLessThan(24 * HOUR_MS);
  });

  test("counts the tasks of one namespace alone", async (fixture) => {
    const namespace = `${fixture.namespace}-other`;
    await fixture.add();
    await fixture.enqueue([fixture.newTask({ namespace }), fixture.newTask({ namespace })]);
    const [own] = (await stats(fixture)).items;
    expect(own).toMatchObject({ pending: 1, due: 1 });
    const [foreign] = (await fixture.store.stats({ namespace, limit: 10 })).items;
    expect(foreign).toMatchObject({ pending: 2, due: 2 });
  });

  test(
    "groups the due tasks of one namespace, and tells since when, and who was claimed last",
    async (fixture) => {
      const namespace = `${fixture.namespace}-other`;
      const scheduledAt = "2001-02-03T04:05:06.789Z";
      const early = await fixture.add({ kind: "early", scheduledAt });
      await fixture.enqueue([fixture.newTask({ kind: "early", namespace })]);
      await fixture.addAll([{ kind: "again" }, { kind: "again" }]);
      const first = await fixture.hold({ kinds: ["again"], limit: 1 });
      await fixture.pass(5);
      const second = await fixture.hold({ kinds: ["again"], limit: 1 });
      for (const held of [second, first]) await fixture.requeue(held);
      const grouped = async (query: Partial<DueKindsQuery> = {}) => {
        const asked = { namespace: fixture.namespace, dueForMs: 0, limit: 100, ...query };
        const found = (await fixture.store.dueKinds?.(asked)) ?? [];
        return [...found].sort((a, b) => (a.kind < b.kind ? -1 : 1));
      };
      const [again, only] = await grouped();
      expect(again).toMatchObject({ kind: "again", queue: "queue", version: 1, tasks: 2 });
      expect(again?.dueAt).toBe((await fixture.view(first)).scheduledAt);
      expect(again?.startedAt).toBe((await fixture.view(second)).startedAt);
      const { createdAt } = await fixture.view(early);
      expect(only).toMatchObject({ kind: "early", tasks: 1, dueAt: createdAt, startedAt: null });
      // It is due since it was added, not since it was to be.
      expect(await grouped({ dueForMs: 24 * HOUR_MS })).toEqual([]);
      expect(await grouped({ kinds: ["early"], queues: ["another"] })).toEqual([]);
      expect(await grouped({ kinds: ["early"], queues: ["queue"] })).toHaveLength(1);
      const some = await grouped({ limit: 2 });
      expect(some.reduce((sum, { tasks }) => sum + tasks, 0)).toBe(2);
    },
    needsDueKinds,
  );

  test("counts up to its limit of each state", async (fixture) => {
    await fixture.addAll([{}, {}, {}]);
    const three = await stats(fixture, { limit: 3 });
    expect([three.complete, three.items[0]?.due]).toEqual([true, 3]);
    expect((await stats(fixture, { limit: 2 })).complete).toBe(false);
    await fixture.cancel(await fixture.add());
    // A backlog hides no other state.
    expect((await stats(fixture, { limit: 1 })).items[0]?.cancelled).toBe(1);
  });
};
