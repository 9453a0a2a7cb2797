/** Tasks with a concurrency key. */
import type { Concurrency } from "../../tasks/port.js";
import type { Held, Need, Section } from "./fixture.js";
import { needsReap } from "./fixture.js";

const HOUR_MS = 3_600_000;

function keyed(change: Partial<Concurrency> = {}): { concurrency: Concurrency } {
  return { concurrency: { key: "a", perKey: 1, order: "fifo", ...change } };
}
const ANY = keyed({ order: "any" });
const ids = (tasks: readonly { id: string }[]) => tasks.map(({ id }) => id);

const needsBlockedKeys: Need = ({ store }) =>
  store.blockedKeys ? null : "the store does not name blocked keys";

export const keys: Section = (test, expect) => {
  test("runs one task of a key at a time, in the order in which they were added", async (fixture) => {
    // Within a key, neither priority nor time decides.
    const added = await fixture.addAll([
      { ...keyed(), priority: 5 },
      { ...keyed(), priority: -5 },
      { ...keyed(), priority: 0 },
    ]);
    for (const id of added) {
      const held = await fixture.hold();
      expect(held.id).toBe(id);
      expect(await fixture.claim()).toEqual([]);
      await fixture.complete(held);
    }
    expect(await fixture.claim()).toEqual([]);
  });

  test("shows the key, the limit and the order that a task declares", async (fixture) => {
    const [fifo = "", any = "", none = ""] = await fixture.addAll([keyed({ perKey: 3 }), ANY, {}]);
    const declared = { key: "a", perKey: 3, order: "fifo" };
    expect((await fixture.view({ id: fifo })).concurrency).toEqual(declared);
    const { items } = await fixture.store.list({ namespace: fixture.namespace });
    expect(items.map(({ id, concurrency }) => [id, concurrency])).toEqual([
      [none, null],
      [any, ANY.concurrency],
      [fifo, declared],
    ]);
  });

  test("runs as many as the newest task of the key declares", async (fixture) => {
    const added = await fixture.addAll(Array.from({ length: 6 }, () => keyed({ perKey: 2 })));
    const first = await fixture.claim();
    expect(ids(first)).toEqual(added.slice(0, 2));
    const { id } = await fixture.add(keyed({ perKey: 3 }));
    expect(ids(await fixture.claim())).toEqual(added.slice(2, 3));
    for (const held of first) await fixture.complete(held);
    expect(ids(await fixture.claim({ limit: 1 }))).toEqual(added.slice(3, 4));
    expect(ids(await fixture.claim())).toEqual(added.slice(4, 5));
    expect((await fixture.view({ id })).state).toBe("pending");
  });

  test("fills a claim past a key of which many tasks were added at once", async (fixture) => {
    const added = await fixture.addAll([
      ...Array.from({ length: 20 }, () => keyed()),
      keyed({ key: "b" }),
      keyed({ key: "c" }),
    ]);
    expect(ids(await fixture.claim({ limit: 3 }))).toEqual([0, 20, 21].map((at) => added[at]));
  });

  test("has keys for each queue and kind, and lets tasks without a key pass", async (fixture) => {
    const added = await fixture.addAll([
      keyed(),
      { ...keyed(), kind: "other" },
      { ...keyed(), queue: "other" },
      keyed({ key: "b" }),
      {},
      keyed(),
    ]);
    const held = await fixture.claim({ queues: ["queue", "other"] });
    expect(ids(held)).toEqual(added.slice(0, 5));
  });

  test("has a rate for each queue and kind", async (fixture) => {
    const rated = keyed({ perKey: 10, rate: { limit: 1, perMs: HOUR_MS } });
    const places = [{}, { kind: "other" }, { queue: "other" }];
    const added = await fixture.addAll(places.map((place) => ({ ...rated, ...place })));
    await fixture.addAll(places.map((place) => ({ ...rated, ...place })));
    for (const queue of ["other", "queue"]) {
      const claimed = ids(await fixture.claim({ queues: [queue] }));
      expect(claimed).toEqual(queue === "other" ? added.slice(2) : added.slice(0, 2));
      expect(await fixture.claim({ queues: [queue] })).toEqual([]);
    }
  });

  test("has keys and rates for each namespace", async (fixture) => {
    const rate = { limit: 2, perMs: HOUR_MS };
    const namespace = `${fixture.namespace}-other`;
    const [busy, rated] = [keyed(), keyed({ key: "b", perKey: 9, rate })];
    const added = await fixture.addAll([busy, busy, rated, rated, rated]);
    const abroad = [busy, rated, rated].map((task) => fixture.newTask({ ...task, namespace }));
    await fixture.enqueue(abroad);
    expect(ids(await fixture.claim())).toEqual([0, 2, 3].map((at) => added[at]));
    expect(ids(await fixture.claim({ namespace }))).toEqual(ids(abroad));
    expect(await fixture.claim()).toEqual([]);
    const { store } = fixture;
    if (store.blockedKeys) {
      expect(await store.blockedKeys({ namespace, limit: 10 })).toEqual([]);
      const blocked = await store.blockedKeys({ namespace: fixture.namespace, limit: 10 });
      expect(blocked.map(({ key, pending }) => [key, pending])).toEqual([
        ["a", 1],
        ["b", 1],
      ]);
    }
  });

  test("starts as many in a window as the newest task of the key declares", async (fixture) => {
    const rated = (limit: number, perMs = HOUR_MS) => keyed({ perKey: 10, rate: { limit, perMs } });
    const added = await fixture.addAll([rated(1), rated(1), rated(1), rated(1)]);
    expect(ids(await fixture.claim())).toEqual(added.slice(0, 1));
    expect(await fixture.claim()).toEqual([]);
    await fixture.add(rated(3));
    expect(ids(await fixture.claim())).toEqual(added.slice(1, 3));
    expect(await fixture.claim()).toEqual([]);
    // The window under way has ended by the rate of the newest task.
    await fixture.pass(5);
    await fixture.add(rated(1, 1));
    expect(ids(await fixture.claim({ limit: 1 }))).toEqual(added.slice(3));
  });

  test("counts the starts in a window of tasks that are deleted, and past a reap", async (fixture) => {
    const rated = keyed({ rate: { limit: 2, perMs: HOUR_MS } });
    for (let start = 0; start < 2; start += 1) {
      const held = await fixture.addAndHold(rated);
      await fixture.complete(held);
      await fixture.delete(held);
      await fixture.store.reap();
    }
    await fixture.add(rated);
    expect(await fixture.claim()).toEqual([]);
    const { id } = await fixture.add(keyed({ key: "b", rate: { limit: 1, perMs: HOUR_MS } }));
    expect((await fixture.hold()).id).toBe(id);
  });

  test(
    "keeps the window under way when a newer task of the key declares a longer one",
    async (fixture) => {
      const rated = (perMs: number) => keyed({ perKey: 10, rate: { limit: 1, perMs } });
      await fixture.addAndHold(rated(100));
      await fixture.add(rated(HOUR_MS));
      await fixture.pass(150);
      await fixture.store.reap();
      await fixture.add(rated(HOUR_MS));
      expect(await fixture.claim()).toEqual([]);
    },
    needsReap,
  );

  test(
    "says when a rate lets the next task of a key start",
    async (fixture) => {
      const rated = keyed({ perKey: 10, rate: { limit: 1, perMs: HOUR_MS } });
      await fixture.addAll([rated, rated, { ...keyed({ key: "b" }), kind: "other" }]);
      await fixture.claim();
      // Another task of the key: every store looks at it again.
      await fixture.add(rated);
      const asked = async (kind: string) => {
        const outcome = await fixture.store.claim(fixture.claimRequest({ kinds: [kind] }));
        if (outcome.status === "failed") throw outcome.error;
        expect(outcome.tasks).toEqual([]);
        return outcome.retryInMs ?? null;
      };
      const inMs = await asked("kind");
      expect(inMs).toBeGreaterThan(0);
      expect(inMs).toBeLessThanOrEqual(HOUR_MS);
      expect(await asked("other")).toBe(null);
    },
    ({ store }) => (store.capabilities.remoteWait ? "the server behind it waits by itself" : null),
  );

  test("goes by priority between keys, and between tasks with a key and without", async (fixture) => {
    const added = await fixture.addAll([
      { ...keyed(), priority: 3 },
      { ...keyed({ key: "b" }), priority: 1 },
      { priority: 2 },
      { priority: 4 },
      { ...keyed({ key: "b" }), priority: -1 },
    ]);
    const claimed: string[] = [];
    for (let claim = 0; claim < 4; claim += 1) {
      claimed.push(...ids(await fixture.claim({ limit: 1 })));
    }
    expect(claimed).toEqual([1, 2, 0, 3].map((at) => added[at]));
    expect(await fixture.claim()).toEqual([]);
  });

  test("stays due while others come before the head of its key", async (fixture) => {
    const [keyedOne, plain] = await fixture.addAll([{ ...keyed(), priority: 3 }, { priority: 2 }]);
    expect(ids(await fixture.claim({ limit: 1 }))).toEqual([plain]);
    expect(ids(await fixture.claim({ limit: 1 }))).toEqual([keyedOne]);
  });

  test("keeps back the others while the head waits for its retry", async (fixture) => {
    const [head = "", next = ""] = await fixture.addAll([keyed(), keyed()]);
    await fixture.fail(await fixture.hold(), { retryInMs: HOUR_MS });
    expect(await fixture.claim()).toEqual([]);
    await fixture.retry({ id: head });
    const again = await fixture.hold();
    expect(again.id).toBe(head);
    await fixture.fail(again, { retryInMs: HOUR_MS });
    await fixture.cancel({ id: head });
    expect((await fixture.hold()).id).toBe(next);
  });

  test("lets the others pass a head that is dead, cancelled or deleted", async (fixture) => {
    const added = await fixture.addAll([keyed(), keyed(), keyed(), keyed(), keyed()]);
    const [, second = "", third = ""] = added;
    await fixture.fail(await fixture.hold(), { final: true });
    await fixture.cancel({ id: second });
    await fixture.delete({ id: third });
    const held = await fixture.hold();
    expect(held.id).toBe(added[3]);
    await fixture.cancel(held);
    expect((await fixture.hold()).id).toBe(added[4]);
  });

  test("gives a task that was requeued or retried its place back", async (fixture) => {
    const added = await fixture.addAll([keyed(), keyed()]);
    await fixture.requeue(await fixture.hold());
    const held = await fixture.hold();
    expect(held.id).toBe(added[0]);
    await fixture.fail(held, { final: true });
    await fixture.retry(held);
    expect((await fixture.hold()).id).toBe(added[0]);
  });

  test("takes a scheduled task once it is due, in its place", async (fixture) => {
    await fixture.inTime(async (dueInMs) => {
      const queue = `due in ${dueInMs}`;
      const { createdAt } = await fixture.view(await fixture.add({ queue: "aside" }));
      const scheduledAt = new Date(Date.parse(createdAt) + dueInMs).toISOString();
      const added = await fixture.addAll([
        { ...keyed(), queue, scheduledAt },
        { ...keyed(), queue },
        { ...keyed(), queue },
      ]);
      const [held, ...more] = await fixture.claim({ queues: [queue] });
      if (held?.id === added[0]) return false;
      expect([held?.id, more]).toEqual([added[1], []]);
      await fixture.pass(dueInMs);
      expect(await fixture.claim({ queues: [queue] })).toEqual([]);
      await fixture.complete(held as Held);
      expect(ids(await fixture.claim({ queues: [queue] }))).toEqual([added[0]]);
      return true;
    });
  });

  test("takes any due task of a key, by priority, if its order is any", async (fixture) => {
    const added = await fixture.addAll([ANY, { ...ANY, priority: 1 }, { ...ANY, priority: -1 }]);
    const first = await fixture.hold();
    expect(first.id).toBe(added[2]);
    await fixture.fail(first, { retryInMs: HOUR_MS });
    const second = await fixture.hold();
    expect(second.id).toBe(added[0]);
    await fixture.complete(second);
    expect((await fixture.hold()).id).toBe(added[1]);
  });

  test(
    "names the keys that keep tasks back, and the tasks that those wait for",
    async (fixture) => {
      const { namespace, store } = fixture;
      const blocked = async (only?: { queue: string; kind: string; key: string }) =>
        (await store.blockedKeys?.({ namespace, limit: 10, ...(only && { only }) })) ?? [];
      await fixture.addAll([
        ...Array.from({ length: 3 }, () => keyed({ key: "busy" })),
        ...Array.from({ length: 2 }, () => keyed({ key: "retrying" })),
        keyed({ key: "alone" }),
        keyed({ key: "free", perKey: 2 }),
        {},
      ]);
      const [busy, retrying, alone, free] = await fixture.claim();
      if (!busy || !retrying || !alone || !free) throw new Error("four tasks");
      await fixture.add(keyed({ key: "free", perKey: 2 }));
      await fixture.fail(retrying, { retryInMs: HOUR_MS });
      await fixture.fail(alone, { retryInMs: HOUR_MS });
      const { expiresAt, holder } = await fixture.view(busy);
      const name = { queue: "queue", kind: "kind" };
      const busyKey = {
        ...name,
        key: "busy",
        perKey: 1,
        order: "fifo",
        pending: 2,
        by: [{ id: busy.id, state: "running", holder, until: expiresAt }],
        usedUpUntil: null,
      };
      const { scheduledAt } = await fixture.view(retrying);
      expect(await blocked()).toEqual([
        busyKey,
        {
          ...busyKey,
          key: "retrying",
          by: [{ id: retrying.id, state: "pending", holder: null, until: scheduledAt }],
        },
      ]);
      expect(await blocked({ ...name, key: "busy" })).toEqual([busyKey]);
      expect(await blocked({ ...name, key: "free" })).toEqual([]);
      await fixture.complete(busy);
      expect(await blocked({ ...name, key: "busy" })).toEqual([]);
    },
    needsBlockedKeys,
  );

  test(
    "names ten of the tasks that others of their key wait for, the first of them",
    async (fixture) => {
      const { namespace, store } = fixture;
      const added = await fixture.addAll(Array.from({ length: 13 }, () => keyed({ perKey: 12 })));
      expect(await fixture.claim()).toHaveLength(12);
      const [blocked] = (await store.blockedKeys?.({ namespace, limit: 10 })) ?? [];
      expect(blocked).toMatchObject({ key: "a", perKey: 12, pending: 1 });
      expect(ids(blocked?.by ?? [])).toEqual(added.slice(0, 10));
    },
    needsBlockedKeys,
  );

  test(
    "names the keys of which the most tasks wait, and no more than asked",
    async (fixture) => {
      const { namespace, store } = fixture;
      for (const [key, count] of Object.entries({ one: 2, three: 4, two: 3, also: 3 })) {
        await fixture.addAll(Array.from({ length: count }, () => keyed({ key })));
      }
      await fixture.claim();
      const named = async (limit: number) =>
        ((await store.blockedKeys?.({ namespace, limit })) ?? []).map(({ key }) => key);
      expect(await named(10)).toEqual(["three", "also", "two", "one"]);
      expect(await named(2)).toEqual(["three", "also"]);
    },
    needsBlockedKeys,
  );

  test("claims tasks with a key like others: again, and of kinds", async (fixture) => {
    const added = await fixture.addAll([
      { ...keyed(), kind: "a" },
      { ...keyed(), kind: "b" },
      { ...keyed(), kind: "a" },
    ]);
    const request = fixture.claimRequest({ kinds: ["b"] });
    const held = await fixture.claim(request);
    expect(ids(held)).toEqual([added[1]]);
    const again = await fixture.claim(request);
    expect(again.map(({ token }) => token)).toEqual(held.map(({ token }) => token));
    expect(ids(await fixture.claim())).toEqual([added[0]]);
  });

  test(
    "counts leases that have not expired, and keeps the order of a task whose worker died",
    async (fixture) => {
      const added = await fixture.addAll([keyed(), keyed()]);
      const held = await fixture.hold({ ttlMs: fixture.shortTtlMs });
      expect(await fixture.claim()).toEqual([]);
      await fixture.pass(held.ttlMs);
      await fixture.reap(held);
      expect((await fixture.hold()).id).toBe(added[0]);
    },
    needsReap,
  );

  test("never runs more of a key than its limit, for 10 claimers at once", async (fixture) => {
    const [names, each] = [["a", "b", "c", "d"], 15];
    const added = await fixture.addAll(
      Array.from({ length: names.length * each }, (_, at) =>
        keyed({ key: names[at % names.length] ?? "" }),
      ),
    );
    const keyOf = (id: string) => added.indexOf(id) % names.length;
    const running = names.map(() => 0);
    const ran: string[][] = names.map(() => []);
    const left = () => ran.reduce((sum, { length }) => sum + length, 0) < added.length;
    await Promise.all(
      Array.from({ length: 10 }, async (_, claimer) => {
        while (left()) {
          for (const held of await fixture.claim({ limit: 1 + (claimer % 3) })) {
            const key = keyOf(held.id);
            running[key] = (running[key] ?? 0) + 1;
            expect(running[key]).toBe(1);
            ran[key]?.push(held.id);
            await fixture.view(held);
            running[key] = 0;
            await fixture.complete(held);
          }
        }
      }),
    );
    for (const [key, done] of ran.entries()) {
      expect(done).toEqual(added.filter((id) => keyOf(id) === key));
    }
  });
};
