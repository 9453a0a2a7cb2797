/** Tasks come into being once. */
import { newTaskId, refusedAll, type Section, thrownBy } from "./fixture.js";

/** Not in the order of any alphabet. */
const IDS = [
  "z",
  "Z",
  "1",
  "counts",
  "invoice 2024/17?a=b#c",
  "019D6C97-05D0-7491-99B4-71393DFE0E45",
  "019d6c97-05d0-7491-99b4-71393dfe0e45",
  "%2e%2e",
  "a,b{c}\"d'\\e",
  "é",
  "e\u0301",
  "null",
  "\u{1f600}".repeat(200),
  " ",
];

export const enqueueing: Section = (test, expect) => {
  test("adds a pending task with all that it was given", async (fixture) => {
    const key = await fixture.add({
      kind: "resize",
      queue: "images",
      priority: -3,
      data: { width: 10 },
      dedupeKey: "a.png",
      maxAttempts: 7,
      crashLimit: 9,
    });
    const view = await fixture.view(key);
    expect(view).toMatchObject({
      id: key.id,
      kind: "resize",
      queue: "images",
      priority: -3,
      state: "pending",
      data: { width: 10 },
      output: null,
      error: null,
      progress: null,
      dedupeKey: "a.png",
      attempt: 0,
      failures: 0,
      crashes: 0,
      maxAttempts: 7,
      crashLimit: 9,
      startedAt: null,
      heartbeatAt: null,
      expiresAt: null,
      holder: null,
      grantId: null,
      token: null,
      remainingMs: null,
      finishedAt: null,
      attempts: [],
    });
    expect(view.scheduledAt).toBe(view.createdAt);
  });

  test("adds nothing when an id comes again, whatever has become of the task", async (fixture) => {
    const task = fixture.newTask({ data: "first" });
    const enqueued = { status: "enqueued", id: task.id };
    expect(await fixture.enqueue([task])).toEqual([enqueued]);
    expect(await fixture.enqueue([task])).toEqual([enqueued]);
    await fixture.complete(await fixture.hold());
    expect(await fixture.enqueue([task])).toEqual([enqueued]);
    expect(await fixture.view(task)).toMatchObject({ state: "done", data: "first", attempt: 1 });
    expect(await fixture.claim()).toEqual([]);
  });

  test("refuses an id that comes again with another content, whatever has become of the task", async (fixture) => {
    const task = fixture.newTask({ data: { b: [1, "\0"], a: null } });
    const again = () =>
      fixture.enqueue([
        { ...task, data: 2 },
        { ...task, kind: "other" },
        { ...task, queue: "other" },
        { ...task, data: { a: null, b: [1, "\0"] }, priority: 9, maxAttempts: 9 },
      ]);
    const conflict = { status: "conflict", id: task.id };
    const outcomes = [conflict, conflict, conflict, { status: "enqueued", id: task.id }];
    await fixture.enqueue([task]);
    expect(await again()).toEqual(outcomes);
    await fixture.complete(await fixture.hold());
    expect(await again()).toEqual(outcomes);
    expect(await fixture.view(task)).toMatchObject({ state: "done", data: task.data });
    expect((await fixture.store.counts(fixture.namespace)).pending).toBe(0);
  });

  test("adds an id that stands twice in a call once, and refuses another content", async (fixture) => {
    const task = fixture.newTask({ data: "first" });
    const other = fixture.newTask();
    const outcomes = await fixture.enqueue([task, other, { ...task, data: "second" }, task]);
    expect(outcomes).toEqual([
      { status: "enqueued", id: task.id },
      { status: "enqueued", id: other.id },
      { status: "conflict", id: task.id },
      { status: "enqueued", id: task.id },
    ]);
    expect((await fixture.view(task)).data).toBe("first");
    expect((await fixture.store.counts(fixture.namespace)).pending).toBe(2);
  });

  test("keeps at most one unfinished task per kind and dedupeKey", async (fixture) => {
    const { id } = await fixture.add({ dedupeKey: "key" });
    const again = () => fixture.enqueue([fixture.newTask({ dedupeKey: "key" })]);
    expect(await again()).toEqual([{ status: "duplicate", id }]);
    const held = await fixture.hold();
    expect(await again()).toEqual([{ status: "duplicate", id }]);
    // Another queue is no way around it; another kind, or no key, is another matter.
    const others = [
      fixture.newTask({ dedupeKey: "key", queue: "other" }),
      fixture.newTask({ dedupeKey: "key", kind: "other" }),
      fixture.newTask({ dedupeKey: "other" }),
      fixture.newTask(),
      fixture.newTask(),
    ];
    expect((await fixture.enqueue(others)).map(({ status }) => status)).toEqual([
      "duplicate",
      "enqueued",
      "enqueued",
      "enqueued",
      "enqueued",
    ]);
    await fixture.complete(held);
    expect(await again()).toMatchObject([{ status: "enqueued" }]);
  });

  test("tells kind and dedupeKey apart however they are spelt", async (fixture) => {
    const pairs = ["a:b|c", "a|b:c", "|a:b:c", 'a","b|c', 'a|b","c'];
    const tasks = pairs.map((pair) => {
      const [kind = "", dedupeKey = ""] = pair.split("|");
      return fixture.newTask({ kind: kind || "k", dedupeKey });
    });
    for (const outcome of await fixture.enqueue(tasks)) {
      expect(outcome.status).toBe("enqueued");
    }
  });

  test("answers the first task when a dedupeKey stands twice in a call", async (fixture) => {
    const [first, second, third] = [1, 2, 3].map(() => fixture.newTask({ dedupeKey: "key" }));
    if (!first || !second || !third) throw new Error("three tasks");
    expect(await fixture.enqueue([first, second, first, third])).toEqual([
      { status: "enqueued", id: first.id },
      { status: "duplicate", id: first.id },
      { status: "enqueued", id: first.id },
      { status: "duplicate", id: first.id },
    ]);
  });

  test("lets one of many concurrent callers add a dedupeKey", async (fixture) => {
    const tasks = Array.from({ length: 40 }, (_, index) =>
      fixture.newTask({ dedupeKey: `key ${index % 2}` }),
    );
    const outcomes = await Promise.all(
      tasks.map(async (task) => (await fixture.enqueue([task]))[0]),
    );
    expect(outcomes.filter((outcome) => outcome?.status === "enqueued")).toHaveLength(2);
    const { items } = await fixture.store.list({ namespace: fixture.namespace });
    expect(items).toHaveLength(2);
    for (const [index, outcome] of outcomes.entries()) {
      const there = items.find(({ dedupeKey }) => dedupeKey === tasks[index]?.dedupeKey);
      expect(outcome).toMatchObject({ id: there?.id });
    }
  });

  test("adds one id once, however many callers send it at once", async (fixture) => {
    const task = fixture.newTask({ dedupeKey: "key" });
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, async () => (await fixture.enqueue([task]))[0]),
    );
    for (const outcome of outcomes) expect(outcome).toEqual({ status: "enqueued", id: task.id });
    expect((await fixture.store.counts(fixture.namespace)).pending).toBe(1);
  });

  test("adds many tasks by one call, in any order of ids", async (fixture) => {
    const tasks = Array.from({ length: 1_000 }, (_, index) => fixture.newTask({ data: index }));
    const outcomes = await fixture.enqueue([...tasks].reverse());
    expect(outcomes).toEqual([...tasks].reverse().map(({ id }) => ({ status: "enqueued", id })));
    expect((await fixture.store.counts(fixture.namespace)).pending).toBe(1_000);
    expect(await fixture.enqueue([])).toEqual([]);
  });

  test("keeps any text as an id, and claims and lists in the order of the calls", async (fixture) => {
    const { namespace, store } = fixture;
    const scheduledAt = "2001-02-03T04:05:06.789Z";
    await fixture.enqueue(
      IDS.map((id, index) => fixture.newTask({ id, data: index, scheduledAt })),
    );
    for (const [index, id] of IDS.entries()) {
      const repeated = fixture.newTask({ id, data: index, scheduledAt });
      expect(await fixture.enqueue([repeated])).toEqual([{ status: "enqueued", id }]);
      const other = fixture.newTask({ id, data: "other" });
      expect(await fixture.enqueue([other])).toEqual([{ status: "conflict", id }]);
      expect(await fixture.view({ id })).toMatchObject({ id, data: index });
    }
    const { items } = await store.list({ namespace });
    expect(items.map(({ id }) => id)).toEqual(IDS.toReversed());
    const listed = await store.list({ namespace, ids: IDS.slice(2, 5).toReversed() });
    expect(listed.items.map(({ id }) => id)).toEqual(IDS.slice(2, 5).toReversed());
    const held = await fixture.claim({ limit: 100 });
    expect(held.map(({ id }) => id)).toEqual(IDS);
    const leases = await fixture.leases({ states: ["live"], limit: 4 });
    expect(leases.map(({ resource }) => resource)).toEqual(
      IDS.toReversed().map((id) => `task:${id}`),
    );
    const [first, second, ...rest] = held;
    if (first && second) {
      expect(await fixture.heartbeat(first)).toMatchObject({ status: "renewed" });
      expect(await fixture.fail(second, { final: true })).toMatchObject({ state: "dead" });
    }
    for (const task of rest) {
      expect(await fixture.complete(task, task.id)).toMatchObject({ output: task.id });
      expect(await fixture.complete(task, task.id)).toMatchObject({ repeated: true });
    }
    expect(await fixture.retryAll(IDS.slice(1, 2).map((id) => fixture.key(id)))).toEqual([
      { status: "ok", state: "pending" },
    ]);
    for (const id of IDS.slice(2)) expect(await fixture.view({ id })).toMatchObject({ output: id });
  });

  test("throws at an id that no task can have and a scheduledAt that is no time", async (fixture) => {
    for (const [path, change] of [
      ...["", "..", ".", "a\nb", "\u0000", "\ud800", "x".repeat(201)].map(
        (id) => ["id", { id }] as const,
      ),
      ["scheduledAt", { scheduledAt: "tomorrow" }],
    ] as const) {
      const call = fixture.store.enqueue([fixture.newTask(change)]);
      expect(await thrownBy(call)).toMatchObject({ code: "INVALID_OPTION", path });
    }
  });

  test("keeps namespaces apart: ids, dedupeKeys, claims", async (fixture) => {
    const task = fixture.newTask({ dedupeKey: "key", data: "ours" });
    const foreign = { ...task, namespace: `${fixture.namespace}-other`, data: "theirs" };
    expect(await fixture.enqueue([task, foreign])).toEqual([
      { status: "enqueued", id: task.id },
      { status: "enqueued", id: task.id },
    ]);
    const held = await fixture.hold();
    expect(held.data).toBe("ours");
    const stranger = { ...held, namespace: foreign.namespace };
    expect(await fixture.useAll(stranger)).toEqual(refusedAll("taken"));
    expect(await fixture.store.get(foreign)).toMatchObject({ state: "pending", data: "theirs" });
    const nowhere = { ...held, namespace: `${fixture.namespace}-none` };
    expect(await fixture.useAll(nowhere)).toEqual(refusedAll("unknown"));
    expect(await fixture.cancelAll([nowhere])).toEqual([{ status: "unknown" }]);
    expect(await fixture.retryAll([nowhere])).toEqual([{ status: "unknown" }]);
    expect(await fixture.store.get(nowhere)).toBe(null);
  });

  test("knows no task by an id that was never enqueued, UUID or not", async (fixture) => {
    for (const id of [newTaskId(), "", "task-1", "'; --", "\u0000"]) {
      const grant = { ...fixture.key(id), leaseId: "0".repeat(48), token: 1 };
      expect(await fixture.useAll(grant)).toEqual(refusedAll("unknown"));
      expect(await fixture.cancel({ id })).toEqual({ status: "unknown" });
      expect(await fixture.retry({ id })).toEqual({ status: "unknown" });
      expect(await fixture.store.get(fixture.key(id))).toBe(null);
    }
  });
};
