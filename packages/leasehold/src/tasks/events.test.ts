import { expect, test } from "vitest";
import { newLeaseId, taskIds } from "../env/index.js";
import { memory } from "../stores/memory/index.js";
import { manualEnv } from "../testing/index.js";
import { newTaskOf } from "../testing/task-suite/new-task.js";
import { observed, type TaskEvent } from "./events.js";

const NO_BACKOFF = { backoff: { firstMs: 0, longestMs: 0 } };

async function setUp() {
  const env = manualEnv();
  const { tasks } = await memory().open(env);
  const events: TaskEvent[] = [];
  const store = observed(tasks, (event) => void events.push(event));
  const id = taskIds(env.clock, env.random)();
  const key = { namespace: "default", id };
  const enqueue = () => store.enqueue([newTaskOf(key, NO_BACKOFF)]);
  const claim = async (holder: string) => {
    const outcome = await store.claim({
      namespace: "default",
      claimId: newLeaseId(env.random),
      holder,
      queues: ["queue"],
      kinds: null,
      limit: 1,
      ttlMs: 1_000,
    });
    const [task] = outcome.status === "claimed" ? outcome.tasks : [];
    if (!task) throw new Error("no task");
    return { ...key, leaseId: task.leaseId, token: task.token };
  };
  return { env, store, events, key, id, enqueue, claim };
}

test("tells a task's whole story, hand-overs and late reports too", async () => {
  const { env, store, events, key, id, enqueue, claim } = await setUp();
  await enqueue();
  const first = await claim("first");
  await store.heartbeat([{ ...first, ttlMs: 1_000 }]);
  await env.clock.advance(1_500);
  await store.reap();
  const second = await claim("second");
  await store.complete([{ ...first, output: "late" }]);
  await store.fail([{ ...second, error: "broken", retryInMs: 0 }]);
  const third = await claim("third");
  await store.requeue([third]);
  await store.cancel([key]);
  await store.retry([key]);
  const fourth = await claim("fourth");
  await store.complete([{ ...fourth, output: 1 }]);
  await store.complete([{ ...fourth, output: 1 }]);
  const of = ({ token }: { token: number }, holder: string, attempt: number) => ({
    id,
    kind: "kind",
    token,
    holder,
    attempt,
  });
  expect(events).toEqual([
    { type: "enqueued", id, kind: "kind", queue: "queue", duplicate: false },
    {
      type: "claimed",
      ...of(first, "first", 1),
      queue: "queue",
      remainingMs: 1_000,
      previousHolder: null,
    },
    { type: "renewed", ...of(first, "first", 1), remainingMs: 1_000 },
    { type: "expired", ...of(first, "first", 1), state: "pending" },
    {
      type: "claimed",
      ...of(second, "second", 2),
      queue: "queue",
      remainingMs: 1_000,
      previousHolder: "first",
    },
    { type: "refused", operation: "complete", reason: "taken", ...of(first, "first", 1) },
    {
      type: "failed",
      ...of(second, "second", 2),
      state: "pending",
      retryInMs: 0,
      error: "broken",
    },
    expect.objectContaining({ type: "claimed", ...of(third, "third", 3) }),
    { type: "returned", ...of(third, "third", 3) },
    { type: "cancelled", id, state: "cancelled" },
    { type: "retried", id, state: "pending" },
    expect.objectContaining({ type: "claimed", holder: "fourth" }),
    expect.objectContaining({ type: "completed", holder: "fourth", repeated: false }),
    expect.objectContaining({ type: "completed", holder: "fourth", repeated: true }),
  ]);
  const text = JSON.stringify(events);
  for (const { leaseId } of [first, second, third, fourth]) expect(text).not.toContain(leaseId);
});

test("does not call a heartbeat refused that its own holder's report has overtaken", async () => {
  const { env, store, events, enqueue, claim } = await setUp();
  await enqueue();
  const stale = await claim("stale");
  await env.clock.advance(1_500);
  await store.reap();
  const failing = await claim("failing");
  await store.fail([{ ...failing, error: "broken", retryInMs: 0 }]);
  const leaving = await claim("leaving");
  await store.requeue([leaving]);
  const owner = await claim("owner");
  await store.complete([{ ...owner, output: 1 }]);
  events.length = 0;
  const grants = [owner, leaving, stale, failing];
  await store.heartbeat(grants.map((grant) => ({ ...grant, ttlMs: 1_000 })));
  expect(events).toMatchObject([{ type: "refused", holder: "stale", reason: "finished" }]);
});

test("does not know the holder of a grant that it has not seen", async () => {
  const { store, events, key } = await setUp();
  await store.heartbeat([{ ...key, leaseId: "0".repeat(48), token: 5, ttlMs: 1_000 }]);
  expect(events).toEqual([
    {
      type: "refused",
      operation: "heartbeat",
      reason: "unknown",
      id: key.id,
      token: 5,
      kind: null,
      holder: null,
      attempt: null,
    },
  ]);
});

test("tells nothing of what failed", async () => {
  const { store, events, enqueue } = await setUp();
  await store.close();
  expect(await enqueue()).toMatchObject([{ status: "failed" }]);
  expect(events).toEqual([]);
});

test("keeps the holders of two tenants apart that have chosen one id", async () => {
  const env = manualEnv();
  const { tasks } = await memory().open(env);
  const reported: (readonly [namespace: string, event: TaskEvent])[] = [];
  const store = observed(tasks, (event, namespace) => void reported.push([namespace, event]));
  const grants = [];
  for (const namespace of ["a", "b"]) {
    const place = { queue: `queue of ${namespace}`, kind: `kind of ${namespace}` };
    await store.enqueue([newTaskOf({ namespace, id: "one" }, place)]);
    const outcome = await store.claim({
      namespace,
      claimId: newLeaseId(env.random),
      holder: `holder of ${namespace}`,
      queues: [place.queue],
      kinds: null,
      limit: 1,
      ttlMs: 1_000,
    });
    const [task] = outcome.status === "claimed" ? outcome.tasks : [];
    grants.push({ namespace, id: "one", leaseId: task?.leaseId ?? "", token: task?.token ?? 0 });
  }
  // Else the test shows nothing.
  expect(grants[0]?.token).toBe(grants[1]?.token);
  reported.length = 0;
  await store.complete(grants.map((grant) => ({ ...grant, output: 1 })));
  await store.heartbeat(grants.map((grant) => ({ ...grant, ttlMs: 1_000 })));
  const of = (namespace: string) => ({
    type: "completed",
    kind: `kind of ${namespace}`,
    holder: `holder of ${namespace}`,
  });
  expect(reported).toMatchObject([
    ["a", of("a")],
    ["b", of("b")],
  ]);
});

test("tells of a duplicate by the id of the task that there is, and of no conflict", async () => {
  const { store, events, key, enqueue } = await setUp();
  await store.enqueue([newTaskOf(key, { ...NO_BACKOFF, dedupeKey: "one" })]);
  const duplicate = newTaskOf({ ...key, id: "second" }, { dedupeKey: "one" });
  const conflict = newTaskOf(key, { data: "other" });
  await store.enqueue([duplicate, conflict]);
  // A repeated call is reported again: it may be the answer to the first that was lost.
  await enqueue();
  const enqueued = { type: "enqueued", id: key.id, kind: "kind", queue: "queue" };
  expect(events).toEqual([
    { ...enqueued, duplicate: false },
    { ...enqueued, duplicate: true },
    { ...enqueued, duplicate: false },
  ]);
});
