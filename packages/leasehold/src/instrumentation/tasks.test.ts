import { expect, it } from "vitest";
import { recordedTelemetry } from "../../../../tests/support/worlds/recorded-telemetry.js";
import type { Telemetry } from "../env/index.js";
import { memory } from "../stores/memory/index.js";
import type { TaskStore } from "../tasks/index.js";
import { manualEnv } from "../testing/index.js";
import { newTaskOf } from "../testing/task-suite/new-task.js";
import { measuredTasks } from "./tasks.js";

it("counts a repeated request once, also where the first answer was lost", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  if (!stores.tasks) throw new Error("no task store");
  const counted: Record<string, number> = {};
  const telemetry = {
    count: (_: string, { event }: { event: string }) => {
      counted[event] = (counted[event] ?? 0) + 1;
    },
    measure: (name: string) => {
      counted[name] = (counted[name] ?? 0) + 1;
    },
    span: (_: string, __: object, work: (span: object) => unknown) =>
      work({ rename() {}, set() {}, fail() {} }),
    here: () => undefined,
  } as unknown as Telemetry;
  const tasks = measuredTasks(stores.tasks, { telemetry, clock: env.clock });
  const namespace = "a";
  const id = (n: number) => `019a0000-0000-7000-8000-00000000000${n}`;
  const claim = async (claimId: string) => {
    const request = { namespace, claimId, holder: "h", queues: ["queue"], kinds: null };
    const outcome = await tasks.claim({ ...request, limit: 1, ttlMs: 60_000 });
    const [task] = outcome.status === "claimed" ? outcome.tasks : [];
    if (!task) throw new Error("no task");
    return { ...task, namespace };
  };
  const twice = async <T>(call: () => Promise<T>): Promise<T> => {
    await call();
    return call();
  };
  for (const n of [1, 2, 3, 4]) {
    await twice(() => tasks.enqueue([newTaskOf({ namespace, id: id(n) }, { maxAttempts: 1 })]));
  }
  const returned = await twice(() => claim("returned"));
  await twice(() => tasks.requeue([returned]));
  const completed = await twice(() => claim("completed"));
  await twice(() => tasks.complete([{ ...completed, output: null }]));
  const failed = await twice(() => claim("failed"));
  await twice(() => tasks.fail([{ ...failed, error: "no", retryInMs: null }]));
  const lost = await twice(() => claim("lost"));
  // Its answer does not reach the measured store.
  await stores.tasks.complete([{ ...lost, output: null }]);
  await twice(() => tasks.complete([{ ...lost, output: null }]));
  expect(counted).toMatchObject({
    enqueued: 4,
    claimed: 4,
    returned: 1,
    completed: 2,
    failed: 1,
    dead: 1,
    "leasehold.task.wait.duration": 4,
    "leasehold.task.run.duration": 4,
  });
  await stores.close();
});

it("counts each tenant's events and times its run, though two tenants have a task of one id", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  if (!stores.tasks) throw new Error("no task store");
  const runMs: number[] = [];
  const events: string[] = [];
  const telemetry = {
    count: (_: string, { event }: { event: string }) => void events.push(event),
    measure: (name: string, _: object, ms: number) => {
      if (name === "leasehold.task.run.duration") runMs.push(ms);
    },
    span: (_: string, __: object, work: (span: object) => unknown) =>
      work({ rename() {}, set() {}, fail() {} }),
    here: () => undefined,
  } as unknown as Telemetry;
  const tasks = measuredTasks(stores.tasks, { telemetry, clock: env.clock });
  const id = "019a0000-0000-7000-8000-000000000001";
  const begin = async (namespace: string) => {
    await tasks.enqueue([newTaskOf({ namespace, id }, {})]);
    const request = { claimId: `claim-${namespace}`, holder: "h", queues: ["queue"], kinds: null };
    const outcome = await tasks.claim({ ...request, namespace, limit: 1, ttlMs: 60_000 });
    const [task] = outcome.status === "claimed" ? outcome.tasks : [];
    if (!task) throw new Error("no task");
    return { ...task, namespace, output: null };
  };
  const first = await begin("a");
  await env.clock.advance(1_000);
  const second = await begin("b");
  expect(first.token).toBe(second.token);
  await env.clock.advance(500);
  await tasks.complete([first]);
  await tasks.complete([second]);
  expect(runMs).toEqual([1_500, 500]);
  const ofEach = ["enqueued", "claimed"];
  expect(events).toEqual([...ofEach, ...ofEach, "completed", "completed"]);
  await stores.close();
});

async function measured(capabilities: Partial<TaskStore["capabilities"]> = {}) {
  const env = manualEnv();
  const { telemetry, valuesOf } = recordedTelemetry();
  const { tasks: inner } = await memory().open(env);
  if (!inner) throw new Error("no task store");
  const over = { capabilities: { ...inner.capabilities, ...capabilities } };
  const tasks = measuredTasks(Object.assign(inner, over), { telemetry, clock: env.clock });
  const key = { namespace: "a", id: "019a0000-0000-7000-8000-000000000001" };
  let claims = 0;
  const claim = async (waitMs?: number) => {
    claims += 1;
    const request = { namespace: "a", claimId: `${claims}`, holder: "h", queues: ["queue"] };
    const waits = waitMs === undefined ? {} : { waitMs };
    const more = { kinds: null, limit: 1, ttlMs: 10_000, ...waits };
    const outcome = await tasks.claim({ ...request, ...more });
    const [task] = outcome.status === "claimed" ? outcome.tasks : [];
    return task && { ...task, namespace: "a" };
  };
  const counted = () =>
    valuesOf("leasehold.task.events").map(([labels]) => (labels as { event: string }).event);
  return { tasks, clock: env.clock, key, claim, counted, valuesOf };
}

it("times a run until its report, though the store has refused a heartbeat before", async () => {
  const { tasks, clock, key, claim, counted, valuesOf } = await measured();
  await tasks.enqueue([newTaskOf(key)]);
  const task = (await claim()) ?? expect.unreachable();
  await clock.advance(1_000);
  await tasks.cancel([key]);
  await tasks.heartbeat([{ ...task, ttlMs: 10_000 }]);
  expect(valuesOf("leasehold.task.run.duration")).toEqual([]);
  await clock.advance(4_000);
  await tasks.complete([{ ...task, output: null }]);
  await tasks.complete([{ ...task, output: null }]);
  expect(valuesOf("leasehold.task.run.duration")).toEqual([[{ outcome: "refused" }, 5_000]]);
  expect(counted().filter((event) => event === "refused")).toHaveLength(3);
});

it("counts what became of a task over several attempts, each once", async () => {
  const { tasks, clock, key, claim, counted, valuesOf } = await measured();
  const added = newTaskOf(key, {
    maxAttempts: 2,
    crashLimit: 1,
    backoff: { firstMs: 0 },
    dedupeKey: "d",
  });
  const other = { ...added, id: key.id.replace(/1$/, "2") };
  await tasks.enqueue([added, other, added]);
  const first = (await claim()) ?? expect.unreachable();
  await clock.advance(2_000);
  await tasks.fail([{ ...first, error: "no", retryInMs: 3_000 }]);
  await clock.advance(3_500);
  const second = (await claim()) ?? expect.unreachable();
  await clock.advance(1_000);
  await tasks.requeue([second]);
  await claim();
  await clock.advance(10_000);
  await tasks.reap();
  await tasks.reap();
  await tasks.retry([key]);
  await tasks.cancel([key]);
  expect(counted()).toEqual([
    "enqueued",
    "duplicate",
    "claimed",
    "failed",
    "claimed",
    "returned",
    "claimed",
    "expired",
    "dead",
    "retried",
    "cancelled",
  ]);
  expect(valuesOf("leasehold.task.run.duration")).toEqual([
    [{ outcome: "failed" }, 2_000],
    [{ outcome: "returned" }, 1_000],
    [{ outcome: "expired" }, 10_000],
  ]);
  // From when it was due, at each attempt.
  const waits = valuesOf("leasehold.task.wait.duration").map(([, ms]) => ms);
  expect(waits).toEqual([0, 500, 1_500]);
});

it("does not take the wait of an idle worker for the latency of its store", async () => {
  const claims = (of: Awaited<ReturnType<typeof measured>>) =>
    of.valuesOf("leasehold.store.duration").map(([labels]) => labels);
  const label = { store: "tasks", operation: "claim", outcome: "ok" };
  const remote = await measured({ remoteWait: true });
  await remote.claim(2_000);
  expect(claims(remote)).toEqual([]);
  await remote.claim();
  expect(claims(remote)).toEqual([label]);
  const local = await measured();
  await local.claim(2_000);
  expect(claims(local)).toEqual([label]);
});
