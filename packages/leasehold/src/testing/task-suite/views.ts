/** What people and programs see of the tasks. */
import { TASK_STATES, type TaskQuery } from "../../tasks/port.js";
import type { Fixture, Section } from "./fixture.js";
import { thrownBy } from "./fixture.js";

/** Two tasks in each state, of alternating kinds; their ids by state. */
async function twoOfEach(fixture: Fixture): Promise<Record<string, string[]>> {
  const states = [...TASK_STATES, ...TASK_STATES];
  const ids = await fixture.addAll(
    states.map((state, index) => ({
      queue: state,
      kind: index < TASK_STATES.length ? "a" : "b",
      ...(state === "expired" && { startByMs: 1 }),
    })),
  );
  await fixture.claim({ queues: ["running"] });
  for (const held of await fixture.claim({ queues: ["done"] })) await fixture.complete(held, 1);
  for (const held of await fixture.claim({ queues: ["dead"] })) {
    await fixture.fail(held, { final: true });
  }
  const byState: Record<string, string[]> = {};
  for (const [index, state] of states.entries()) {
    byState[state] = [...(byState[state] ?? []), ids[index] ?? ""];
  }
  await fixture.cancelAll((byState["cancelled"] ?? []).map((id) => fixture.key(id)));
  await fixture.pass(1);
  for (const id of byState["expired"] ?? []) await fixture.untilExpired({ id });
  return byState;
}

export const views: Section = (test, expect) => {
  test("lists newest first, by state, queue and kind", async (fixture) => {
    const ids = await twoOfEach(fixture);
    const all = Object.values(ids).flat();
    const listed = async (query: Omit<TaskQuery, "namespace"> = {}) => {
      const page = await fixture.store.list({ ...query, namespace: fixture.namespace });
      expect(page.nextCursor).toBe(null);
      return page.items.map(({ id }) => id);
    };
    const newestFirst = (some: readonly string[] = []) => [...some].sort().reverse();
    expect(await listed()).toEqual(newestFirst(all));
    for (const state of TASK_STATES) {
      expect(await listed({ states: [state] })).toEqual(newestFirst(ids[state]));
      expect(await listed({ queue: state })).toEqual(newestFirst(ids[state]));
      expect(await listed({ states: [state], kind: "b" })).toEqual(ids[state]?.slice(1));
    }
    expect(await listed({ states: ["done", "dead"] })).toEqual(
      newestFirst([...(ids["done"] ?? []), ...(ids["dead"] ?? [])]),
    );
    expect(await listed({ states: [] })).toEqual([]);
    expect(await listed({ states: ["done"], queue: "dead" })).toEqual([]);
    expect(await listed({ kind: "none" })).toEqual([]);
  });

  test("lists what it also answers one by one", async (fixture) => {
    await twoOfEach(fixture);
    const { items } = await fixture.store.list({ namespace: fixture.namespace });
    expect(items).toHaveLength(12);
    for (const item of items) {
      const { attempts, checkpoint, ...view } = await fixture.view(item);
      const { remainingMs, ...rest } = view;
      expect(checkpoint).toBe(null);
      expect({ ...item, remainingMs: null }).toEqual({ ...rest, remainingMs: null });
      expect(remainingMs === null).toBe(item.state !== "running");
      expect(attempts).toHaveLength(item.attempt);
    }
  });

  test("pages through everything once, while tasks are added", async (fixture) => {
    const ids = await fixture.addAll(Array.from({ length: 25 }, () => ({})));
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await fixture.store.list({
        namespace: fixture.namespace,
        limit: 10,
        ...(cursor && { cursor }),
      });
      expect(page.items.length).toBeLessThanOrEqual(10);
      seen.push(...page.items.map(({ id }) => id));
      cursor = page.nextCursor ?? undefined;
      // Newer than the page before: not on the pages to come.
      await fixture.add({ id: `ffffffff-0000-7000-8000-${`${seen.length}`.padStart(12, "0")}` });
    } while (cursor);
    expect(seen).toEqual([...ids].reverse());
  });

  test("pages within a filter, and ends exactly", async (fixture) => {
    const ids = await fixture.addAll(
      Array.from({ length: 40 }, (_, index) => ({ queue: index % 2 ? "odd" : "even" })),
    );
    const query = { namespace: fixture.namespace, queue: "odd", limit: 10 };
    const first = await fixture.store.list(query);
    const second = await fixture.store.list({ ...query, cursor: first.nextCursor ?? "" });
    const seen = [...first.items, ...second.items].map(({ id }) => id);
    expect(seen).toEqual(ids.filter((_, index) => index % 2).reverse());
    expect(second.nextCursor).toBe(null);
  });

  test("lists tasks without those that are due now", async (fixture) => {
    const [due = "", , dead = ""] = await fixture.addAll([
      { data: "due" },
      { data: "later", scheduledAt: "2100-01-01T00:00:00.000Z" },
      { data: "dead" },
    ]);
    const { namespace, store } = fixture;
    const listed = async (query: Omit<TaskQuery, "namespace"> = {}) => {
      const { items } = await store.list({ namespace, ...query });
      return items.map(({ data }) => data);
    };
    expect(await listed({ excludeDue: true })).toEqual(["later"]);
    await store.cancel([{ namespace, id: dead }]);
    expect(await listed({ excludeDue: true })).toEqual(["dead", "later"]);
    expect(await listed({ excludeDue: true, states: ["pending"] })).toEqual(["later"]);
    expect(await listed({ excludeDue: true, ids: [due] })).toEqual([]);
    expect(await listed({ excludeDue: false, ids: [due] })).toEqual(["due"]);
    // A retry makes all of them due.
    const { items } = await store.list({ namespace });
    await store.retry(items.map(({ id }) => ({ namespace, id })));
    expect(await listed({ excludeDue: true })).toEqual([]);
  });

  test("lists tasks by their ids", async (fixture) => {
    const ids = await fixture.addAll(Array.from({ length: 5 }, (_, index) => ({ data: index })));
    const [first = "", second = "", third = "", fourth = ""] = ids;
    const absent = "ffffffff-0000-7000-8000-000000000000";
    const { namespace } = fixture;
    const listed = async (query: Omit<TaskQuery, "namespace">) => {
      const { items, nextCursor } = await fixture.store.list({ namespace, ...query });
      return [items.map(({ data }) => data), nextCursor];
    };
    // The second is given twice.
    const wanted = [second, absent, fourth, second, first];
    expect(await listed({ ids: wanted })).toEqual([[3, 1, 0], null]);
    const [page, afterSecond] = await listed({ ids: wanted, limit: 2 });
    expect(page).toEqual([3, 1]);
    expect(await listed({ ids: wanted, cursor: afterSecond as string })).toEqual([[0], null]);
    const [, afterThird] = await listed({ ids: [third, second], limit: 1 });
    expect(await listed({ ids: wanted, cursor: afterThird as string })).toEqual([[1, 0], null]);
    expect(await listed({ ids: wanted, states: ["done"] })).toEqual([[], null]);
    expect(await listed({ ids: [absent] })).toEqual([[], null]);
    expect(await listed({ ids: [] })).toEqual([[], null]);
    const abroad = await fixture.store.list({ namespace: `${namespace}-other`, ids });
    expect(abroad.items).toEqual([]);
  });

  test("lists 100 by default", async (fixture) => {
    await fixture.addAll(Array.from({ length: 101 }, () => ({})));
    const page = await fixture.store.list({ namespace: fixture.namespace });
    expect(page.items).toHaveLength(100);
    expect(page.nextCursor === null).toBe(false);
  });

  test("throws at a cursor that no page has given", async (fixture) => {
    const call = fixture.store.list({ namespace: fixture.namespace, cursor: "page 2" });
    expect(await thrownBy(call)).toMatchObject({ code: "INVALID_OPTION", path: "cursor" });
  });

  test("counts the tasks of each state", async (fixture) => {
    const none = { pending: 0, running: 0, done: 0, dead: 0, cancelled: 0, expired: 0 };
    expect(await fixture.store.counts(fixture.namespace)).toEqual(none);
    await twoOfEach(fixture);
    await fixture.add();
    expect(await fixture.store.counts(fixture.namespace)).toEqual({
      pending: 3,
      running: 2,
      done: 2,
      dead: 2,
      cancelled: 2,
      expired: 2,
    });
    expect(await fixture.store.counts(`${fixture.namespace}-other`)).toEqual(none);
  });

  test("shows nothing of another namespace", async (fixture) => {
    await twoOfEach(fixture);
    const namespace = `${fixture.namespace}-other`;
    expect(await fixture.store.list({ namespace })).toEqual({ items: [], nextCursor: null });
  });

  test("says times as ISO 8601 in UTC", async (fixture) => {
    const held = await fixture.addAndHold();
    await fixture.heartbeat(held);
    await fixture.complete(held);
    const view = await fixture.view(held);
    const { createdAt, scheduledAt, startedAt, heartbeatAt, expiresAt, finishedAt } = view;
    const [attempt] = view.attempts;
    const times = [createdAt, scheduledAt, startedAt, heartbeatAt, finishedAt, expiresAt];
    for (const time of [...times, attempt?.startedAt, attempt?.endedAt]) {
      expect(new Date(time ?? "").toISOString()).toBe(time);
    }
    expect(times.map(String).sort()).toEqual(times);
  });
};
