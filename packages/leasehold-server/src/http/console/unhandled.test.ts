/** Kinds of tasks that no live worker handles: in the log and in /v1/workers. */
import { randomUUID } from "node:crypto";
import type { Logger } from "leasehold";
import type { NewTask } from "leasehold/port";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { openTestApp, PROCESSOR } from "../../../../../tests/support/server/app.js";
import { openTenants } from "../../../../../tests/support/server/tenants.js";

const NONE: readonly object[] = [];

async function open() {
  const warnings: object[] = [];
  const none = () => {};
  const logger: Logger = {
    debug: none,
    info: none,
    warn: (fields: object) => void warnings.push(fields),
    error: (fields: object) => void warnings.push(fields),
  };
  const env = { ...manualEnv(), logger };
  const { ask, stores } = await openTestApp({ env });
  return {
    stores,
    ask,
    clock: env.clock,
    warnings,
    add: (more: object = {}) =>
      ask("POST", "/api/tasks", { task_data: { sleep_duration_seconds: 5 }, ...more }),
    claim: (kinds: readonly string[] | null, versions?: Readonly<Record<string, number>>) =>
      ask("POST", "/api/tasks/next", { processor: PROCESSOR, kinds, versions }),
    unhandled: async () => (await ask("GET", "/v1/workers")).body.unhandled,
  };
}

test("a kind without a worker is reported, with its tasks, and logged once", async () => {
  const { clock, add, claim, unhandled, warnings } = await open();
  await claim(["sleep"]);
  const dueAt = new Date(clock.wall()).toISOString();
  await add();
  await add();
  expect(await unhandled()).toEqual(NONE);
  await clock.advance(12_000);
  const kind = { queue: "default", kind: "default", version: 1, tasks: 2, complete: true, dueAt };
  expect(await unhandled()).toEqual([kind]);
  await clock.advance(60_000);
  expect(warnings).toEqual([{ event: "kind_unhandled", namespace: "default", ...kind }]);
});

test("a kind is handled while a worker claims it, runs it, or took one recently", async () => {
  const { ask, clock, add, claim, unhandled, warnings } = await open();
  await claim(null);
  await add();
  await add();
  const { body } = await claim(null);
  await add({ kind: "claimed", queue: "other" });
  await clock.advance(60_000);
  // The claims cover every kind of the queue "default" only.
  expect(await unhandled()).toMatchObject([{ queue: "other", kind: "claimed" }]);
  expect(warnings).toHaveLength(1);
  await clock.advance(90_000);
  // The claim is too old to count, and so is the task that ran.
  const [{ id }] = body.tasks;
  expect((await ask("GET", `/api/tasks/${id}`)).body.state).toBe("pending");
  expect(await unhandled()).toHaveLength(2);
  expect(warnings).toHaveLength(2);
  await claim(null);
  await clock.advance(30_000);
  expect(await unhandled()).toHaveLength(1);
});

test("a version that only workers of earlier ones claim is reported and logged by itself", async () => {
  const { clock, add, claim, unhandled, warnings } = await open();
  await add({ kind: "invoice", version: 2 });
  await claim(["invoice"]);
  await clock.advance(30_000);
  const version = { queue: "default", kind: "invoice", version: 2, tasks: 1 };
  expect(await unhandled()).toMatchObject([version]);
  expect(warnings).toMatchObject([{ event: "kind_unhandled", ...version }]);
  await claim(["invoice"], { invoice: 2 });
  await clock.advance(30_000);
  expect(await unhandled()).toEqual(NONE);
});

test("a kind that loses its workers again is logged again", async () => {
  const { clock, add, claim, unhandled, warnings } = await open();
  for (let task = 0; task < 3; task += 1) await add();
  await clock.advance(30_000);
  expect(warnings).toHaveLength(1);
  await claim(null);
  await clock.advance(30_000);
  expect(await unhandled()).toEqual(NONE);
  await clock.advance(240_000);
  expect(await unhandled()).toMatchObject([{ kind: "default" }]);
  expect(warnings).toHaveLength(2);
});

test("tasks that are not due yet, and tasks of paused queues, are not reported", async () => {
  const { ask, clock, add, unhandled, warnings } = await open();
  const later = new Date(clock.wall() + 60_000).toISOString();
  await add({ scheduled_at: later });
  await ask("PUT", "/v1/pauses", { kind: "queue", name: "held", reason: "test" });
  await add({ queue: "held" });
  // Of a resource that has the name of a queue.
  await ask("PUT", "/v1/pauses", { kind: "resource", name: "default", reason: "test" });
  await clock.advance(65_000);
  expect(await unhandled()).toEqual(NONE);
  await clock.advance(20_000);
  expect(await unhandled()).toMatchObject([{ queue: "default", tasks: 1, dueAt: later }]);
  expect(warnings).toHaveLength(1);
});

async function openSeveral() {
  const logged: { namespace?: string }[] = [];
  const warn = (fields: object) => void logged.push(fields);
  const none = () => {};
  const env = manualEnv({ logger: { debug: none, info: none, warn, error: warn } });
  const stores = await memory().open(env);
  const { app, ask, newKey } = openTenants(stores, env);
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  return { env, logged, ask, newKey };
}

test("the same kind of several tenants is logged for each, and once", async () => {
  const { env, logged, ask, newKey } = await openSeveral();
  const keys = await Promise.all(["a", "b", "c"].map((tenant) => newKey(tenant, "admin")));
  for (const { text } of keys.slice(0, 2)) {
    const { status } = await ask(text, {
      method: "POST",
      path: "/api/tasks",
      body: { task_data: 1 },
    });
    expect(status).toBe(201);
  }
  await env.clock.advance(60_000);
  expect(logged.map(({ namespace }) => namespace)).toEqual(["a", "b"]);
  // Only one of the tenants has a worker.
  const next = { method: "POST", path: "/api/tasks/next", body: { processor: PROCESSOR } };
  expect((await ask(keys[0]!.text, next)).status).toBe(200);
  // The read for the log is shown for a while.
  await env.clock.advance(5_000);
  const unhandledOf = async ({ text: key }: { text: string }) => {
    const { text } = await ask(key, { method: "GET", path: "/v1/workers" });
    return JSON.parse(text).unhandled.length;
  };
  expect(await Promise.all(keys.map(unhandledOf))).toEqual([0, 1, 0]);
});

test("of many tenants, those that enqueued last are checked", async () => {
  const { env, logged, ask, newKey } = await openSeveral();
  const names = Array.from({ length: 101 }, (_, n) => `tenant-${n}`);
  const keys = new Map<string, string>();
  for (const name of names) keys.set(name, (await newKey(name, "admin")).text);
  const [first = "", second = ""] = names;
  for (const name of [...names.slice(0, -1), first, ...names.slice(-1)]) {
    const body = { task_data: 1 };
    const { status } = await ask(keys.get(name) ?? "", {
      method: "POST",
      path: "/api/tasks",
      body,
    });
    expect(status).toBe(201);
  }
  await env.clock.advance(60_000);
  const checked = new Set(logged.map(({ namespace }) => namespace));
  expect(names.filter((name) => !checked.has(name))).toEqual([second]);
});

const BACKLOG = [
  ["oldest", 1],
  ["older", 2],
  ["reports", 2_500],
  ["mails", 1_200],
] as const;

test("every kind of a long backlog is named, with all of its tasks", async () => {
  const { clock, stores, unhandled } = await open();
  for (const [kind, tasks] of BACKLOG) {
    const all = Array.from({ length: tasks }, () => newTask(kind));
    await stores.tasks?.enqueue(all);
  }
  await clock.advance(12_000);
  const found: { kind: string; tasks: number; complete: boolean }[] = await unhandled();
  const counted = found.map(({ kind, tasks, complete }) => [kind, tasks, complete]);
  expect(counted).toEqual([
    ["reports", 2_500, true],
    ["mails", 1_200, true],
    ["older", 2, true],
    ["oldest", 1, true],
  ]);
});

function newTask(kind: string): NewTask {
  return {
    namespace: "default",
    id: randomUUID(),
    kind,
    queue: "default",
    priority: 0,
    data: null,
    scheduledAt: null,
    dedupeKey: null,
    maxAttempts: 3,
    crashLimit: 3,
    backoff: { firstMs: 1_000, longestMs: 60_000, factor: 2, jitter: 0.5 },
  };
}
