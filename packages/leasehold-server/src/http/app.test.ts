import { newLeaseId, sleep, systemClock, systemRandom } from "leasehold/internal";
import { taskInPath, toWireLeaseId } from "leasehold/internal/wire";
import { expect, test } from "vitest";
import {
  expectProblem,
  held,
  openTestApp as open,
  PROCESSOR,
  type Reply,
} from "../../../../tests/support/server/app.js";
import { GENERATOR_RESOURCE } from "../generator/shared.js";

const UUID = "01890000-0000-7000-8000-000000000000";

test("a task is enqueued, claimed, renewed and completed", async () => {
  const app = await open();
  const added = await app.ask("POST", "/api/tasks", { task_data: { sleep_duration_seconds: 5 } });
  expect(added.status).toBe(201);
  const { id } = added.body;
  expect(added.body).toEqual({ id, status: "enqueued" });

  const next = await app.ask("POST", "/api/tasks/next", { processor: PROCESSOR, ttlSeconds: 10 });
  expect(next.status).toBe(200);
  expect(next.body.tasks).toHaveLength(1);
  const [task] = next.body.tasks;
  expect(task).toMatchObject({
    id,
    task_data: { sleep_duration_seconds: 5 },
    processor: PROCESSOR,
    state: "running",
    kind: "default",
    queue: "default",
    priority: 0,
    attempt: 1,
    failures: 0,
    crashes: 0,
    maxAttempts: 10,
    ttlMs: 10_000,
    previousProcessor: null,
    leaseId: expect.stringMatching(/^[0-9a-f]{48}$/),
    must_heartbeat_before: expect.stringMatching(/Z$/),
  });
  expect(task.remainingMs).toBeGreaterThan(0);
  const grant = { leaseId: task.leaseId, fencingToken: task.fencingToken };

  const beat = await app.ask("PUT", `/api/tasks/${id}/heartbeat`, {
    ...grant,
    processor: PROCESSOR,
    ttlMs: 60_000,
    progress: { half: true },
  });
  expect(beat.status).toBe(202);
  expect(beat.body).toMatchObject({ id, fencingToken: task.fencingToken, ttlMs: 60_000 });

  const started = await app.ask("GET", "/api/tasks/started");
  expect(started.body.items).toHaveLength(1);
  expect(started.body.items[0]).toMatchObject({
    id,
    processor: PROCESSOR,
    progress: { half: true },
    processed_at: null,
    started_at: expect.any(String),
    last_heartbeat_at: expect.any(String),
  });
  expect(JSON.stringify(started.body)).not.toContain(task.leaseId);

  const done = await app.ask("PUT", `/api/tasks/${id}/complete`, { ...grant, task_output: [1] });
  expect(done.status).toBe(202);
  expect(done.body).toEqual({ id, state: "done", task_output: [1], repeated: false });
  const again = await app.ask("PUT", `/api/tasks/${id}/complete`, { ...grant, task_output: "new" });
  expect(again.status).toBe(202);
  expect(again.body).toEqual({ id, state: "done", task_output: [1], repeated: true });

  const { body: details } = await app.ask("GET", `/api/tasks/${id}`);
  expect(details).toMatchObject({ id, state: "done", task_output: [1], remainingMs: null });
  expect(details.attempts).toMatchObject([
    { attempt: 1, processor: PROCESSOR, fencingToken: task.fencingToken, result: "done" },
  ]);
  expect(JSON.stringify(details)).not.toContain(task.leaseId);
  const processed = await app.ask("GET", "/api/tasks/processed");
  expect(processed.body.items.map((item: { id: string }) => item.id)).toEqual([id]);
});

test("an id with another content is 409, and in an array a status of its own", async () => {
  const { ask } = await open();
  const task = { id: "01920000-0000-7000-8000-000000000001", task_data: { a: 1, b: 2 } };
  const again = { ...task, task_data: { b: 2, a: 1 } };
  expect((await ask("POST", "/api/tasks", task)).status).toBe(201);
  expect(await ask("POST", "/api/tasks", again)).toMatchObject({
    status: 201,
    body: { id: task.id, status: "enqueued" },
  });
  for (const change of [{ task_data: 2 }, { kind: "other" }, { queue: "other" }]) {
    const reply = await ask("POST", "/api/tasks", { ...task, ...change });
    expect([reply.status, reply.body.code]).toEqual([409, "TASK_CONFLICT"]);
    expect(reply.body.detail).toContain(task.id);
  }
  const batch = await ask("POST", "/api/tasks", [{ ...task, task_data: 2 }, again]);
  expect(batch.body).toEqual([
    { id: task.id, status: "conflict" },
    { id: task.id, status: "enqueued" },
  ]);
});

test("no task is 204, for any query", async () => {
  const { ask } = await open();
  await ask("POST", "/api/tasks", { task_data: 1, queue: "other", kind: "a" });
  for (const change of [{}, { queues: ["other"], kinds: ["b"] }]) {
    const { status, body } = await ask("POST", "/api/tasks/next", { processor: "p", ...change });
    expect([status, body]).toEqual([204, null]);
  }
  const found = await ask("POST", "/api/tasks/next", { processor: "p", queues: ["x", "other"] });
  expect(found.status).toBe(200);
});

test("an array of tasks is answered by an array, in its order", async () => {
  const { ask } = await open();
  const own = { task_data: 2, id: UUID, priority: -1, dedupeKey: "k", scheduled_at: null };
  const { status, body } = await ask("POST", "/api/tasks", [
    { task_data: 1, priority: 5 },
    own,
    { task_data: 3, dedupeKey: "k" },
  ]);
  expect(status).toBe(201);
  expect(body.map((outcome: { status: string }) => outcome.status)).toEqual([
    "enqueued",
    "enqueued",
    "duplicate",
  ]);
  expect([body[1].id, body[2].id]).toEqual([UUID, UUID]);
  // Repeated with the same id: nothing is enqueued.
  expect((await ask("POST", "/api/tasks", own)).body).toEqual({ id: UUID, status: "enqueued" });
  const next = await ask("POST", "/api/tasks/next", { processor: "p", limit: 100 });
  expect(next.body.tasks.map((task: { task_data: unknown }) => task.task_data)).toEqual([2, 1]);
});

test("lists have small payloads whole and the beginning of large ones", async () => {
  const { ask } = await open();
  const text = "x".repeat(250_000);
  await ask("POST", "/api/tasks", [{ task_data: { to: "ada" } }, { task_data: text }]);
  for (const path of ["/api/tasks", "/api/tasks/pending"]) {
    const [large, small] = (await ask("GET", path)).body.items;
    expect(small).toMatchObject({ task_data: { to: "ada" }, task_output: null, progress: null });
    expect(small).not.toHaveProperty("dataPreview");
    expect(large).toMatchObject({ dataPreview: `"${text.slice(0, 199)}…`, task_output: null });
    expect(large).not.toHaveProperty("task_data");
    const whole = (await ask("GET", `/api/tasks/${large.id}`)).body;
    expect(whole).toMatchObject({ task_data: text, attempts: [] });
    expect(whole).not.toHaveProperty("dataPreview");
  }
});

test("a repeated claim returns the same tasks", async () => {
  const { ask } = await open();
  await ask("POST", "/api/tasks", [{ task_data: 1 }, { task_data: 2 }]);
  const request = { processor: "p", claimId: newLeaseId(systemRandom) };
  const first = await ask("POST", "/api/tasks/next", request);
  const second = await ask("POST", "/api/tasks/next", request);
  const grant = ({ body }: Reply) => [body.tasks[0].id, body.tasks[0].leaseId];
  expect(grant(second)).toEqual(grant(first));
  const { status, body } = await ask("POST", "/api/tasks/next", { ...request, processor: "q" });
  const problem = expect.stringContaining('names a claim of the holder "p"');
  expect([status, body.errors]).toEqual([422, [{ path: "claimId", problem }]]);
});

test("a request of a former holder is refused with the reason", async () => {
  const app = await open();
  const { id, path, grant } = await held(app);
  const operations = {
    heartbeat: grant,
    complete: grant,
    fail: { ...grant, error: "no" },
    return: grant,
  };
  const expectRefused = async (code: string, reason: string) => {
    for (const [operation, body] of Object.entries(operations)) {
      const refused = await app.ask("PUT", `${path}/${operation}`, body);
      expectProblem(refused, 409, code);
      expect(refused.body.reason).toBe(reason);
    }
  };
  expect((await app.ask("POST", `${path}/cancel`)).body).toEqual({ id, state: "cancelled" });
  await expectRefused("TASK_CANCELLED", "cancelled");
  expect((await app.ask("POST", `${path}/retry`)).body).toEqual({ id, state: "pending" });
  const next = await app.ask("POST", "/api/tasks/next", { processor: "other" });
  const { leaseId, fencingToken } = next.body.tasks[0];
  expect(fencingToken).toBeGreaterThan(grant.fencingToken);
  await expectRefused("LEASE_TAKEN", "taken");
  const done = await app.ask("PUT", `${path}/complete`, { leaseId, fencingToken });
  expect([done.status, done.body.task_output]).toEqual([202, null]);
  await expectRefused("TASK_FINISHED", "finished");
  const conflict = await app.ask("POST", `${path}/cancel`);
  expectProblem(conflict, 409, "STATE_CONFLICT");
  expect(conflict.body.state).toBe("done");
});

test("a task whose lease expired is reaped, and its holder is refused", async () => {
  const app = await open();
  const { path, grant } = await held(app, {}, { ttlMs: 100 });
  for (let state = "running"; state === "running"; await sleep(systemClock, 20)) {
    state = (await app.ask("GET", path)).body.state;
  }
  const refused = await app.ask("PUT", `${path}/heartbeat`, grant);
  expectProblem(refused, 409, "LEASE_EXPIRED");
  const next = await app.ask("POST", "/api/tasks/next", { processor: "second" });
  expect(next.body.tasks[0]).toMatchObject({
    previousProcessor: PROCESSOR,
    crashes: 1,
    attempt: 2,
  });
});

test("a failed task is retried or dead; a requeued one is pending at once", async () => {
  const app = await open();
  const first = await held(app, { maxAttempts: 2 });
  const failed = await app.ask("PUT", `${first.path}/fail`, {
    ...first.grant,
    error: "it broke",
    retryInMs: 0,
  });
  expect([failed.status, failed.body]).toEqual([
    202,
    { id: first.id, state: "pending", retryInMs: 0, repeated: false },
  ]);
  const next = await app.ask("POST", "/api/tasks/next", { processor: "p" });
  const { leaseId, fencingToken } = next.body.tasks[0];
  const returned = await app.ask("PUT", `${first.path}/return`, { leaseId, fencingToken });
  expect([returned.status, returned.body]).toEqual([
    202,
    { id: first.id, state: "pending", repeated: false },
  ]);
  const last = await app.ask("POST", "/api/tasks/next", { processor: "p" });
  expect(last.body.tasks[0]).toMatchObject({ failures: 1, attempt: 3 });
  const dead = await app.ask("PUT", `${first.path}/fail`, {
    leaseId: last.body.tasks[0].leaseId,
    fencingToken: last.body.tasks[0].fencingToken,
    error: "it broke again",
    final: true,
  });
  expect(dead.body).toEqual({ id: first.id, state: "dead", retryInMs: null, repeated: false });
  const { body } = await app.ask("GET", "/api/tasks/dead");
  expect(body.items[0]).toMatchObject({ id: first.id, error: "it broke again" });
});

test("an unknown task or route is 404", async () => {
  const { ask } = await open();
  const grant = { leaseId: "0".repeat(48), fencingToken: 1 };
  for (const id of [UUID, "1", "%ZZ", "..%2f", "null"]) {
    expectProblem(await ask("GET", `/api/tasks/${id}`), 404, "UNKNOWN_TASK");
    expectProblem(await ask("POST", `/api/tasks/${id}/cancel`), 404, "UNKNOWN_TASK");
    const complete = await ask("PUT", `/api/tasks/${id}/complete`, grant);
    expectProblem(complete, 404, "UNKNOWN_TASK");
  }
  for (const path of ["/", "/api", "/api/tasks/", `/api/tasks/${UUID}/x`, "/v2", "/%", "/%00"]) {
    expectProblem(await ask("GET", path), 404, "UNKNOWN_ROUTE");
  }
});

test("a task is read and changed under any id, the name of another route included", async () => {
  const { ask } = await open();
  for (const id of [
    "counts",
    "pending",
    "next",
    "retry",
    "a/b?c#d%2e",
    "%63ounts",
    "Zoë 1",
    "NULL",
  ]) {
    const added = await ask("POST", "/api/tasks", { task_data: id, id });
    expect(added.body).toEqual({ id, status: "enqueued" });
    const path = `/api/tasks/${taskInPath(id)}`;
    expect((await ask("GET", path)).body).toMatchObject({ id, task_data: id, state: "pending" });
    expect((await ask("GET", `${path}/why`)).body).toMatchObject({ id, state: "pending" });
    expect((await ask("POST", `${path}/cancel`)).body).toEqual({ id, state: "cancelled" });
    expect((await ask("POST", `${path}/retry`)).body).toEqual({ id, state: "pending" });
  }
  expect((await ask("GET", "/api/tasks/counts")).body).toMatchObject({ pending: 8 });
  const { body } = await ask("GET", "/api/tasks?id=counts&id=a/b%3Fc%23d%252e");
  expect(body.items.map((task: { id: string }) => task.id)).toEqual(["a/b?c#d%2e", "counts"]);
});

test("lists are filtered and paged", async () => {
  const { ask } = await open();
  const tasks = Array.from({ length: 5 }, (_, n) => ({
    task_data: n,
    kind: n % 2 ? "odd" : "even",
  }));
  const { body } = await ask("POST", "/api/tasks", tasks);
  const ids: string[] = body.map((task: { id: string }) => task.id);
  await ask("POST", `/api/tasks/${ids[0]}/cancel`);
  const seen: string[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: Reply = await ask("GET", `/api/tasks?limit=2${cursor && `&cursor=${cursor}`}`);
    seen.push(...page.body.items.map((task: { id: string }) => task.id));
    cursor = page.body.nextCursor;
  }
  expect(seen).toEqual([...ids].sort().reverse());
  const count = async (path: string) => (await ask("GET", path)).body.items.length;
  expect(await count("/api/tasks?kind=odd")).toBe(2);
  expect(await count("/api/tasks?queue=none")).toBe(0);
  expect(await count("/api/tasks?state=cancelled")).toBe(1);
  expect(await count("/api/tasks?state=cancelled&state=pending")).toBe(5);
  expect(await count("/api/tasks/pending")).toBe(4);
  expect(await count("/api/tasks/cancelled?kind=even")).toBe(1);
  expect((await ask("GET", "/api/tasks/counts")).body).toEqual({
    pending: 4,
    running: 0,
    done: 0,
    dead: 0,
    cancelled: 1,
    expired: 0,
  });
});

test("batches return one outcome per request", async () => {
  const app = await open();
  const { id, grant } = await held(app);
  const other = { id: UUID, leaseId: grant.leaseId, fencingToken: 1 };
  const beats = await app.ask("POST", "/api/tasks/heartbeat", [{ id, ...grant }, other]);
  expect(beats.status).toBe(200);
  expect(beats.body).toMatchObject([
    { status: "renewed", ttlMs: 30_000 },
    { status: "refused", reason: "unknown" },
  ]);
  const fails = await app.ask("POST", "/api/tasks/fail", [{ ...other, error: "" }]);
  expect(fails.body).toEqual([{ status: "refused", reason: "unknown" }]);
  const done = await app.ask("POST", "/api/tasks/complete", [{ id, ...grant, task_output: 1 }]);
  expect(done.body).toEqual([{ status: "completed", repeated: false, task_output: 1 }]);
  const returned = await app.ask("POST", "/api/tasks/return", [{ id, ...grant }]);
  expect(returned.body).toEqual([{ status: "refused", reason: "finished" }]);
  const cancelled = await app.ask("POST", "/api/tasks/cancel", [id, "no id"]);
  expect(cancelled.body).toEqual([{ status: "conflict", state: "done" }, { status: "unknown" }]);
  expect((await app.ask("POST", "/api/tasks/retry", [UUID])).body).toEqual([{ status: "unknown" }]);
});

test("leases are acquired, renewed, listed, revoked and released", async () => {
  const { ask } = await open();
  const grant = (resource: string) => toWireLeaseId(resource, newLeaseId(systemRandom));
  const mine = grant("orders/ä");
  const request = { leaseId: mine, holder: "me", ttlMs: 60_000 };
  const taken = await ask("POST", "/v1/leases/acquire", [
    request,
    { ...request, leaseId: grant("orders/ä"), holder: "you", queueMs: 10 },
    { ...request, metadata: "{}" },
  ]);
  expect(taken.status).toBe(200);
  const { token } = taken.body[0];
  expect(taken.body).toMatchObject([
    { status: "acquired", token, ttlMs: 60_000 },
    { status: "held", holder: "me" },
    { status: "acquired", token },
  ]);
  const renewed = await ask("POST", "/v1/leases/renew", [{ leaseId: mine, ttlMs: 90_000 }]);
  expect(renewed.body).toMatchObject([{ status: "renewed", ttlMs: 90_000 }]);
  const got = await ask("POST", "/v1/leases/get", ["orders/ä", "none"]);
  expect(got.body).toMatchObject([{ resource: "orders/ä", holder: "me", state: "live" }, null]);
  const listed = await ask("GET", "/v1/leases?prefix=orders/&state=live");
  expect(listed.body).toMatchObject({ items: [{ resource: "orders/ä", token }], nextCursor: null });
  expect(JSON.stringify([got.body, listed.body])).not.toContain(mine.split(".")[1]);
  const revoke = (body: object) =>
    ask("POST", "/v1/leases/revoke", [{ resource: "orders/ä", ...body }]);
  expect((await revoke({ expectedToken: token + 1 })).body).toEqual([{ status: "otherToken" }]);
  expect((await revoke({ expectedToken: token })).body).toMatchObject([
    { status: "revoked", token },
  ]);
  const lost = await ask("POST", "/v1/leases/renew", [{ leaseId: mine, ttlMs: 90_000 }]);
  expect(lost.body).toEqual([{ status: "lost", reason: "revoked" }]);
  const released = await ask("POST", "/v1/leases/release", [{ leaseId: mine }]);
  expect(released.body).toEqual([{ status: "released" }]);
  const ended = await ask("POST", "/v1/leases/acquire", [request]);
  expect(ended.body).toEqual([{ status: "ended" }]);
  const collected = await ask("POST", "/v1/leases/collect", { olderThanMs: 3_600_000 });
  expect(collected.body).toEqual({ collected: 0 });
});

test("the generator's status comes from the store and the lease", async () => {
  const { ask, stores } = await open();
  const idle = { holder: null, fencingToken: null, remainingMs: null };
  expect((await ask("GET", "/api/generator")).body).toEqual({
    status: "STOPPED",
    running: false,
    ratePerSecond: 1,
    ...idle,
  });
  const started = await ask("POST", "/api/generator/start");
  expect(started.body).toEqual({ status: "STOPPED", running: true, ratePerSecond: 1, ...idle });
  await stores.leases.acquire([
    {
      namespace: "default",
      resource: GENERATOR_RESOURCE,
      leaseId: "0".repeat(48),
      holder: "node-1",
      ttlMs: 60_000,
    },
  ]);
  const rated = await ask("PUT", "/api/generator/rate", { ratePerSecond: 2.5 });
  expect(rated.body).toMatchObject({
    status: "STARTED",
    running: true,
    ratePerSecond: 2.5,
    holder: "node-1",
  });
  expect((await ask("GET", "/api/generator")).body.status).toBe("STARTED");
  const stopped = await ask("POST", "/api/generator/stop");
  expect(stopped.body).toMatchObject({ status: "STOPPED", running: false, ratePerSecond: 2.5 });
});
