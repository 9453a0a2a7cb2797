/** Tasks of kinds with versions. */
import type { Section } from "./fixture.js";
import type { TaskChange } from "./new-task.js";

const ids = (tasks: readonly { id: string }[]) => tasks.map(({ id }) => id);
const OF_FIRST = { kinds: ["kind"] };
const OF_SECOND = { kinds: ["kind"], versions: { kind: 2 } };
const keyed = (change: TaskChange = {}): TaskChange => ({
  concurrency: { key: "a", perKey: 1, order: "fifo" },
  ...change,
});

export const versions: Section = (test, expect) => {
  test("keeps the version of a task, and returns it with every claim and view", async (fixture) => {
    const [first = "", third = ""] = await fixture.addAll([{}, { version: 3 }]);
    expect((await fixture.view({ id: first })).version).toBe(1);
    expect((await fixture.view({ id: third })).version).toBe(3);
    const { items } = await fixture.store.list({ namespace: fixture.namespace });
    expect(items.map(({ version }) => version)).toEqual([3, 1]);
    const held = await fixture.claim();
    expect(held.map(({ version }) => version)).toEqual([1, 3]);
  });

  test("gives a claim no task of a larger version than it takes", async (fixture) => {
    const [second = "", first = ""] = await fixture.addAll([{ version: 2 }, {}]);
    expect(ids(await fixture.claim(OF_FIRST))).toEqual([first]);
    expect(ids(await fixture.claim({ ...OF_FIRST, versions: { another: 9 } }))).toEqual([]);
    expect(ids(await fixture.claim(OF_SECOND))).toEqual([second]);
    expect((await fixture.view({ id: second })).attempt).toBe(1);
  });

  test("gives a claim tasks of every version up to its own, in claim order", async (fixture) => {
    const added = await fixture.addAll([1, 3, 2, 4].map((version) => ({ version })));
    const held = await fixture.claim({ kinds: ["kind"], versions: { kind: 3 } });
    expect(ids(held)).toEqual(added.slice(0, 3));
    // For any kind, any version.
    expect(ids(await fixture.claim())).toEqual(added.slice(3));
  });

  test("takes a version for each kind, and from several queues", async (fixture) => {
    const added = await fixture.addAll([
      { kind: "a", version: 2 },
      { kind: "b", version: 2 },
      { kind: "a", version: 2, queue: "other" },
      { kind: "b", version: 2, queue: "other" },
    ]);
    const request = { queues: ["queue", "other"], kinds: ["a", "b"], versions: { b: 2 } };
    expect(ids(await fixture.claim(request))).toEqual([added[1], added[3]]);
    const rest = { ...request, versions: { a: 2 } };
    expect(ids(await fixture.claim(rest))).toEqual([added[0], added[2]]);
  });

  test("keeps the version when a task is retried, and finds it again by its id", async (fixture) => {
    const [id = ""] = await fixture.addAll([{ version: 2, maxAttempts: 1 }]);
    const held = await fixture.hold(OF_SECOND);
    await fixture.fail(held);
    await fixture.retry({ id });
    expect(await fixture.claim(OF_FIRST)).toEqual([]);
    expect((await fixture.hold(OF_SECOND)).version).toBe(2);
    // The content of a task is its kind, queue and data.
    const again = fixture.newTask({ id });
    expect(await fixture.enqueue([again])).toEqual([{ status: "enqueued", id }]);
    expect((await fixture.view({ id })).version).toBe(2);
  });

  test("finds the unfinished task of a dedupeKey whatever its version is", async (fixture) => {
    const [id = ""] = await fixture.addAll([{ version: 2, dedupeKey: "one" }]);
    const another = fixture.newTask({ dedupeKey: "one" });
    expect(await fixture.enqueue([another])).toEqual([{ status: "duplicate", id }]);
  });

  test("lets the head of a key wait for a worker of its version, and those behind it", async (fixture) => {
    const [head = "", behind = ""] = await fixture.addAll([keyed({ version: 2 }), keyed()]);
    expect(await fixture.claim(OF_FIRST)).toEqual([]);
    expect(await fixture.claim(OF_FIRST)).toEqual([]);
    const held = await fixture.hold(OF_SECOND);
    expect(held.id).toBe(head);
    await fixture.complete(held);
    expect(ids(await fixture.claim(OF_FIRST))).toEqual([behind]);
  });

  test("gives tasks of other keys to a worker that must leave many keys alone", async (fixture) => {
    const added = await fixture.addAll([
      ...Array.from({ length: 40 }, (_, at) => ({
        version: 2,
        concurrency: { key: `later ${at}`, perKey: 1, order: "fifo" } as const,
      })),
      keyed(),
    ]);
    await fixture.until("the task of the first version is claimed", async () => {
      const held = await fixture.claim({ ...OF_FIRST, limit: 2 });
      for (const { id } of held) expect(id).toBe(added.at(-1));
      return held.length > 0;
    });
    // None of the others is lost.
    const claimed: string[] = [];
    await fixture.until("the others are claimed", async () => {
      claimed.push(...ids(await fixture.claim({ ...OF_SECOND, limit: 7 })));
      return claimed.length >= 40;
    });
    expect(claimed.sort()).toEqual(added.slice(0, 40));
  });

  test("repeats a claim with the versions of its tasks", async (fixture) => {
    await fixture.addAll([{ version: 2 }]);
    const request = fixture.claimRequest(OF_SECOND);
    const first = await fixture.store.claim(request);
    const again = await fixture.store.claim({ ...request, versions: {} });
    expect(first).toMatchObject({ status: "claimed", tasks: [{ version: 2 }] });
    expect(again).toMatchObject({ status: "claimed", tasks: [{ version: 2 }] });
  });
};
