/** Claims whose caller may no longer have them, and enqueues that fail in part. */

import { StoreUnavailableError } from "leasehold";
import type { ClaimRequest, EnqueueOutcome, Failed, TaskStore } from "leasehold/internal";
import { newLeaseId, systemEnv } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { expectProblem, openTestApp } from "../../../../../tests/support/server/app.js";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { TEST_LIMITS } from "../../../../../tests/support/server/test-limits.js";

/** The store with some of its methods replaced. */
function withMethods(store: TaskStore, methods: Partial<TaskStore>): TaskStore {
  return new Proxy(store, {
    get(target, name: keyof TaskStore) {
      const value = methods[name] ?? target[name];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

test("tasks that a waiting claim takes after its key has ended are all requeued at once", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  let claimed = async () => {};
  const tasks = withMethods(stores.tasks, {
    async claim(request: ClaimRequest) {
      const outcome = await stores.tasks.claim(request);
      if (outcome.status === "claimed" && outcome.tasks.length > 0) await claimed();
      return outcome;
    },
  });
  const { app, ask, newKey } = openTenants({ ...stores, tasks }, env);
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  const [admin, worker] = [await newKey("a", "admin"), await newKey("a", "holder")];
  const send = async (text: string, method: string, path: string, body?: unknown) => {
    const answer = await ask(text, { method, path, ...(body === undefined ? {} : { body }) });
    return { status: answer.status, body: answer.text === "" ? null : JSON.parse(answer.text) };
  };
  const three = [{ task_data: 1 }, { task_data: 2 }, { task_data: 3 }];
  await send(admin.text, "POST", "/api/tasks", three);
  claimed = async () => {
    claimed = async () => {};
    await send(admin.text, "DELETE", `/v1/keys/${worker.key.id}?reason=test`);
  };
  // It could be repeated under this id, but not without the key.
  const claimId = newLeaseId(env.random);
  const next = { processor: "w", claimId, waitMs: 10_000, limit: 3 };
  expect((await send(worker.text, "POST", "/api/tasks/next", next)).status).toBe(401);
  await env.clock.advance(100);
  const { items } = (await send(admin.text, "GET", "/api/tasks")).body;
  expect(items.map(({ state }: { state: string }) => state)).toEqual([
    "pending",
    "pending",
    "pending",
  ]);
  const again = { processor: "other", limit: 3 };
  expect((await send(admin.text, "POST", "/api/tasks/next", again)).body.tasks).toHaveLength(3);
});

test("a claim says for how long it waited before the leases began", async () => {
  const env = manualEnv();
  const { ask } = await openTestApp({ env });
  const task = { task_data: null };
  const next = { processor: "w", waitMs: 5_000 };
  await ask("POST", "/api/tasks", task);
  expect((await ask("POST", "/api/tasks/next", next)).body).toMatchObject({ waitedMs: 0 });
  const waiting = ask("POST", "/api/tasks/next", next);
  await env.clock.advance(3_000);
  await ask("POST", "/api/tasks", task);
  await env.clock.advance(2_000);
  const { tasks, waitedMs } = (await waiting).body;
  expect(tasks).toHaveLength(1);
  expect(waitedMs).toBeGreaterThanOrEqual(3_000);
  expect(waitedMs).toBeLessThan(3_500);
});

test("no timer of a waiting claim stays, however it ends", async () => {
  const env = manualEnv();
  const { ask } = await openTestApp({ env });
  await ask("GET", "/api/tasks");
  await env.clock.settle();
  const before = env.clock.pendingTimers;
  const wait = (signal?: AbortSignal) =>
    ask("POST", "/api/tasks/next", { processor: "w", waitMs: 5_000 }, signal ? { signal } : {});
  const timedOut = wait();
  await env.clock.advance(5_000);
  expect((await timedOut).status).toBe(204);
  const served = wait();
  await env.clock.settle();
  await ask("POST", "/api/tasks", { task_data: 1 });
  await env.clock.advance(1_000);
  expect((await served).status).toBe(200);
  const gone = new AbortController();
  const aborted = wait(gone.signal);
  await env.clock.settle();
  gone.abort();
  await aborted;
  // Subscriptions end a while after the last wait.
  await env.clock.advance(600_000);
  expect(env.clock.pendingTimers).toBeLessThanOrEqual(before);
});

test("a waiting claim that the store rejects leaves no timer", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  const tasks = withMethods(stores.tasks, {
    claim: () => Promise.reject(new Error("a driver bug")),
  });
  const { ask } = await openTestApp({ ...stores, tasks, env });
  /** The timers that stay after so many claims. */
  const timersAfter = async (claims: number) => {
    for (let claim = 0; claim < claims; claim += 1) {
      const answer = ask("POST", "/api/tasks/next", { processor: "w", waitMs: 5_000 });
      await env.clock.settle();
      expect((await answer).status).toBe(500);
    }
    await env.clock.advance(600_000);
    return env.clock.pendingTimers;
  };
  const before = await timersAfter(1);
  expect(await timersAfter(3)).toBe(before);
});

const failed = (applied: "no" | "maybe"): Failed => ({
  status: "failed",
  applied,
  retryable: true,
  error: new StoreUnavailableError("it is down", {
    outcome: applied === "no" ? "none" : "unknown",
  }),
});

test.each<[string, ("no" | "maybe" | "ok")[], number]>([
  ["none was enqueued", ["no", "no"], 503],
  ["one may have been", ["no", "maybe"], 504],
  ["one was", ["no", "ok"], 504],
])("an array of which %s is answered as a whole", async (_, results, status) => {
  const stores = await memory().open(systemEnv);
  const tasks = withMethods(stores.tasks, {
    enqueue: async (added) =>
      added.map(({ id }, index): EnqueueOutcome => {
        const result = results[index] ?? "ok";
        if (result !== "ok") return failed(result);
        return {
          status: "enqueued",
          id,
          state: "pending",
          scheduledAt: new Date(0).toISOString(),
        } as unknown as EnqueueOutcome;
      }),
  });
  const { ask } = await openTestApp({ tasks });
  const answer = await ask("POST", "/api/tasks", [{ task_data: 1 }, { task_data: 2 }]);
  expectProblem(answer, status, status === 503 ? "STORE_UNAVAILABLE" : "OUTCOME_UNKNOWN");
});

test("quota of tasks that were not added is free at once, however often adding them fails", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  let answer: (() => Promise<EnqueueOutcome[]>) | undefined;
  const tasks = withMethods(stores.tasks, {
    enqueue: (added, options) => answer?.() ?? stores.tasks.enqueue(added, options),
  });
  const limits = { ...TEST_LIMITS, tasks: 4, recordsPerTask: 1 };
  const { ask } = await openTestApp({ ...stores, tasks, env, limits });
  const add = (count: number) =>
    ask(
      "POST",
      "/api/tasks",
      Array.from({ length: count }, () => ({ kind: "k", dedupeKey: "same", task_data: 1 })),
    );
  const failures: [() => Promise<EnqueueOutcome[]>, number][] = [
    [async () => [failed("no"), failed("no"), failed("no")], 503],
    [async () => [failed("maybe"), failed("maybe"), failed("maybe")], 504],
    [() => Promise.reject(new Error("a driver bug")), 504],
  ];
  for (const [failure, status] of failures) {
    answer = failure;
    for (let times = 0; times < 3; times += 1) expect((await add(3)).status).toBe(status);
  }
  answer = undefined;
  // Duplicates add nothing either.
  expect((await add(1)).status).toBe(201);
  for (let times = 0; times < 3; times += 1) expect((await add(3)).status).toBe(201);
  const others = Array.from({ length: 3 }, () => ({ task_data: 1 }));
  expect((await ask("POST", "/api/tasks", others)).status).toBe(201);
  expectProblem(await add(1), 429, "LIMIT_REACHED");
});
