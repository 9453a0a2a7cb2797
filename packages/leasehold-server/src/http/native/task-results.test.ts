/** Results and statistics of tasks over HTTP. */
import type { TaskStats } from "leasehold";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { expectProblem, openTestApp } from "../../../../../tests/support/server/app.js";
import { openTenants } from "../../../../../tests/support/server/tenants.js";

const UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057";

test("a request without waitMs tells at once how the task stands", async () => {
  const { ask } = await openTestApp();
  const { id } = (await ask("POST", "/api/tasks", { task_data: 1 })).body;
  const path = `/v1/tasks/${id}/result`;
  expect(await ask("GET", path)).toMatchObject({ status: 200, body: { id, state: "pending" } });
  await ask("POST", `/api/tasks/${id}/cancel?reason=test`);
  const ended = { status: 200, body: { id, state: "cancelled", error: null } };
  expect(await ask("GET", path)).toMatchObject(ended);
  expect(await ask("GET", `${path}?waitMs=30000`)).toMatchObject(ended);
  expectProblem(await ask("GET", `/v1/tasks/${UNKNOWN}/result`), 404, "UNKNOWN_TASK");
  expectProblem(await ask("GET", `/v1/tasks/${UNKNOWN}/result?waitMs=9`), 404, "UNKNOWN_TASK");
  expectProblem(await ask("GET", `${path}?waitMs=30001`), 422, "INVALID_REQUEST");
});

test("a request with waitMs is answered when the task ends, or when its time is over", async () => {
  const env = manualEnv();
  const { ask } = await openTestApp({ env });
  const { id } = (await ask("POST", "/api/tasks", { task_data: 1 })).body;
  const path = `/v1/tasks/${id}/result`;
  const short = ask("GET", `${path}?waitMs=1000`);
  const long = ask("GET", `${path}?waitMs=30000`);
  await env.clock.advance(1_000);
  expect((await short).body).toEqual({ id, state: "pending" });
  const [task] = (await ask("POST", "/api/tasks/next", { processor: "p" })).body.tasks;
  const { leaseId, fencingToken } = task;
  const done = { leaseId, fencingToken, task_output: { lines: 3 } };
  await ask("PUT", `/api/tasks/${id}/complete`, done);
  expect((await long).body).toEqual({ id, state: "done", output: { lines: 3 } });
});

test("a wait ends with its connection, and leaves no timer", async () => {
  const env = manualEnv();
  const { ask } = await openTestApp({ env });
  const { id } = (await ask("POST", "/api/tasks", { task_data: 1 })).body;
  await env.clock.advance(60_000);
  const before = env.clock.pendingTimers;
  const leaving = new AbortController();
  const { signal } = leaving;
  const wait = ask("GET", `/v1/tasks/${id}/result?waitMs=30000`, undefined, { signal });
  await env.clock.settle();
  leaving.abort();
  await wait.catch(() => {});
  // The subscription stays for a while.
  await env.clock.advance(10_000);
  expect(env.clock.pendingTimers).toBe(before);
});

test("a wait ends when the key of its caller does", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { app, ask, newKey } = openTenants(stores, env);
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  const [admin, viewer] = [await newKey("a", "admin"), await newKey("a", "viewer")];
  const added = await ask(admin.text, {
    method: "POST",
    path: "/api/tasks",
    body: { task_data: 1 },
  });
  const { id } = JSON.parse(added.text);
  const path = `/v1/tasks/${id}/result?waitMs=30000`;
  const wait = ask(viewer.text, { method: "GET", path });
  await env.clock.settle();
  await ask(admin.text, { method: "DELETE", path: `/v1/keys/${viewer.key.id}?reason=test` });
  expect((await wait).status).toBe(401);
});

test("many results are read in one request, and statistics by queue and kind", async () => {
  const { ask } = await openTestApp();
  const tasks = [
    { task_data: 1, queue: "a", kind: "one" },
    { task_data: 2, queue: "a", kind: "two" },
    { task_data: 3, queue: "b", kind: "one" },
  ];
  const added = (await ask("POST", "/api/tasks", tasks)).body;
  const ids = added.map(({ id }: { id: string }) => id);
  const { body } = await ask("POST", "/v1/tasks/results", { ids: [UNKNOWN, ...ids] });
  expect(body.map(({ state }: { state: string }) => state)).toEqual([
    "unknown",
    "pending",
    "pending",
    "pending",
  ]);
  expectProblem(await ask("POST", "/v1/tasks/results", { ids: [] }), 422, "INVALID_REQUEST");
  const all = (await ask("GET", "/v1/tasks/stats")).body;
  expect(all.complete).toBe(true);
  expect(all.items).toMatchObject(
    tasks.map(({ queue, kind }) => ({ queue, kind, pending: 1, due: 1, done: 0 })),
  );
  const some = (await ask("GET", "/v1/tasks/stats?queue=a&queue=b&kind=one&limit=1")).body;
  expect(some.complete).toBe(false);
  expectProblem(await ask("GET", "/v1/tasks/stats?queues=a"), 422, "INVALID_REQUEST");
});

test("statistics count the versions that are asked for, one for each kind", async () => {
  const { ask } = await openTestApp();
  for (const version of [1, 2]) {
    for (const kind of ["one", "two"]) {
      await ask("POST", "/api/tasks", { task_data: 1, kind, version });
    }
  }
  const due = async (query: string) =>
    (await ask("GET", `/v1/tasks/stats?${query}`)).body.items.map((item: TaskStats) => [
      item.kind,
      item.due,
    ]);
  expect(await due("kind=two&version=1")).toEqual([["two", 1]]);
  expect(await due("kind=two&kind=one&version=2&version=1")).toEqual([
    ["one", 1],
    ["two", 2],
  ]);
  for (const query of ["version=1", "kind=one&kind=two&version=1", "kind=one&version=0"]) {
    expectProblem(await ask("GET", `/v1/tasks/stats?${query}`), 422, "INVALID_REQUEST");
  }
});

test("statistics of more than 1,000 queues and kinds are cut, and say so", async () => {
  const { ask } = await openTestApp();
  const kinds = Array.from({ length: 1_000 }, (_, at) => ({ task_data: 1, kind: `kind-${at}` }));
  await ask("POST", "/api/tasks", kinds);
  const whole = (await ask("GET", "/v1/tasks/stats")).body;
  expect(whole).toMatchObject({ complete: true });
  expect(whole.items).toHaveLength(1_000);
  await ask("POST", "/api/tasks", { task_data: 1, kind: "z" });
  const cut = (await ask("GET", "/v1/tasks/stats")).body;
  expect(cut).toMatchObject({ complete: false });
  expect(cut.items).toHaveLength(1_000);
});
