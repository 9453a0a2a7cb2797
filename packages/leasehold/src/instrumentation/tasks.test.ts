import { expect, it } from "vitest";
import type { Telemetry } from "../env/index.js";
import { memory } from "../stores/memory/index.js";
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
