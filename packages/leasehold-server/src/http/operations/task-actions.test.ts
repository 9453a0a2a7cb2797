/** Actions on many tasks: by their ids, or on those that match a filter. */
import { randomUUID } from "node:crypto";
import { StoreUnavailableError } from "leasehold";
import { systemEnv, type TaskEvent, taskIds } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, test, vi } from "vitest";
import { expectProblem, held, openTestApp } from "../../../../../tests/support/server/app.js";
import { recordedTelemetry } from "../../../../../tests/support/worlds/recorded-telemetry.js";
import { newTaskOf } from "../../../../leasehold/src/testing/task-suite/new-task.js";

/** A bulk action reads 100 pages of 200 tasks at most. */
const NEWER = 20_001;

test("a bulk action that stops before it has read all tasks says that there may be more", async () => {
  const { ask, stores } = await openTestApp();
  const newId = taskIds(systemEnv.clock, systemEnv.random);
  const added = Array.from({ length: NEWER }, () =>
    newTaskOf({ namespace: "default", id: newId() }),
  );
  await stores.tasks.enqueue(added);
  const bulk = (createdBefore: string) =>
    ask("POST", "/api/tasks/bulk", {
      operation: "cancel",
      filter: { createdBefore },
      reason: "old ones",
    });
  expect(await bulk("2020-01-01T00:00:00.000Z")).toMatchObject({
    status: 200,
    body: { matched: 0, changed: 0, more: true },
  });
  await stores.tasks.cancel(added.slice(0, NEWER - 100));
  expect(await bulk("2020-01-01T00:00:00.000Z")).toMatchObject({
    body: { matched: 0, changed: 0, more: false },
  });
});

test.each([
  ["cancel", "cancelled", ["unknown", "conflict", "ok"]],
  ["retry", "retried", ["unknown", "ok", "conflict"]],
  ["delete", "deleted", ["unknown", "ok", "conflict"]],
])(
  "%s of many tasks gives each its own outcome, in the answer, the audit, the events and the metrics",
  async (operation, type, statuses) => {
    const events: TaskEvent[] = [];
    const { telemetry, valuesOf } = recordedTelemetry();
    const env = { ...manualEnv(), telemetry };
    const app = await openTestApp({ env, onTaskEvent: (event) => void events.push(event) });
    const dead = await held(app, { maxAttempts: 1 });
    await app.ask("PUT", `${dead.path}/fail`, { ...dead.grant, error: "broken", final: true });
    const running = await held(app);
    const unknown = "ffffffff-0000-7000-8000-000000000000";
    const ids = [unknown, dead.id, running.id];
    const before = events.length;
    const { body } = await app.ask("POST", `/api/tasks/${operation}`, ids);
    expect(body.map(({ status }: { status: string }) => status)).toEqual(statuses);
    const { items } = (await app.ask("GET", `/v1/audit?action=task.${operation}`)).body;
    const tasks = Object.fromEntries(ids.map((id, index) => [id, statuses[index]]));
    expect(items[0]).toMatchObject({ target: "3 tasks", details: { changed: 1, tasks } });
    const changed = operation === "delete" ? [] : [ids[statuses.indexOf("ok")]];
    const found = events.slice(before).filter((event) => event.type === type);
    expect(found.map((event) => event.id)).toEqual(changed);
    const counted = valuesOf("leasehold.task.events");
    expect(counted.filter(([of]) => (of as { event: string }).event === type)).toHaveLength(
      changed.length,
    );
  },
);

test("a bulk action changes 1,000 tasks at most, the newest, and says that there are more", async () => {
  const { ask, stores } = await openTestApp();
  const newId = taskIds(systemEnv.clock, systemEnv.random);
  const added = Array.from({ length: 1_100 }, () =>
    newTaskOf({ namespace: "default", id: newId() }),
  );
  await stores.tasks.enqueue(added);
  const bulk = (expected?: number) =>
    ask("POST", "/api/tasks/bulk", { operation: "cancel", filter: {}, reason: "test", expected });
  for (const expected of [1_000, 1_001, 1_100]) {
    const refused = await bulk(expected);
    expectProblem(refused, 409, "STATE_CONFLICT");
    expect(refused.body.detail).toContain("more than 1000 tasks match");
  }
  const answer = { conflicts: 0, overLimit: 0 };
  expect((await bulk()).body).toEqual({ ...answer, matched: 1_000, changed: 1_000, more: true });
  const states = await stores.tasks.list({ namespace: "default", states: ["pending"], limit: 200 });
  expect(states.items[0]?.id).toBe(added[99]?.id);
  expectProblem(await bulk(99), 409, "STATE_CONFLICT");
  expect((await bulk(100)).body).toEqual({ ...answer, matched: 100, changed: 100, more: false });
  expect((await bulk(0)).body).toEqual({ ...answer, matched: 0, changed: 0, more: false });
});

test("a bulk action finds tasks that were created before a time, and none of that time", async () => {
  const { clock, random } = manualEnv();
  const { ask } = await openTestApp({ env: { ...manualEnv(), clock, random } });
  await ask("POST", "/api/tasks", { task_data: 1 });
  await clock.advance(1);
  const createdBefore = new Date(clock.wall()).toISOString();
  await ask("POST", "/api/tasks", { task_data: 2 });
  const bulk = { operation: "cancel", filter: { createdBefore }, reason: "test" };
  expect((await ask("POST", "/api/tasks/bulk", bulk)).body).toMatchObject({ changed: 1 });
});

test("the audit has the code of an action that the store failed, and not its message", async () => {
  const { ask, stores } = await openTestApp();
  const { id } = (await ask("POST", "/api/tasks", { task_data: 1 })).body;
  const error = new StoreUnavailableError("it is at 10.0.0.7", { outcome: "none" });
  const failed = { status: "failed", applied: "no", retryable: true, error } as const;
  vi.spyOn(stores.tasks, "cancel").mockResolvedValue([failed]);
  expectProblem(await ask("POST", `/api/tasks/${id}/cancel`), 503, "STORE_UNAVAILABLE");
  const { items } = (await ask("GET", "/v1/audit")).body;
  const { status, applied } = failed;
  expect(items[0]).toMatchObject({ target: id, details: { status, applied, code: error.code } });
  expect(JSON.stringify(items)).not.toContain("10.0.0.7");
});

test("a bulk retry of pending tasks takes those that are scheduled later, 1,000 at a time", async () => {
  const { ask, stores } = await openTestApp();
  const newId = taskIds(systemEnv.clock, systemEnv.random);
  const scheduledAt = new Date(systemEnv.clock.wall() + 3_600_000).toISOString();
  const added = Array.from({ length: 1_100 }, () => ({
    ...newTaskOf({ namespace: "default", id: newId() }),
    scheduledAt,
  }));
  await stores.tasks.enqueue(added);
  await stores.tasks.enqueue([newTaskOf({ namespace: "default", id: newId() })]);
  const retry = async () => {
    const filter = { states: ["pending"] };
    const body = { operation: "retry", filter, reason: "test" };
    return (await ask("POST", "/api/tasks/bulk", body)).body as object;
  };
  const none = { conflicts: 0, overLimit: 0 };
  expect(await retry()).toEqual({ matched: 1_000, changed: 1_000, more: true, ...none });
  expect(await retry()).toEqual({ matched: 100, changed: 100, more: false, ...none });
  expect(await retry()).toEqual({ matched: 0, changed: 0, more: false, ...none });
});

test.each([
  ["delete", "running"],
  ["cancel", "cancelled"],
  ["retry", "done"],
  ["retry", "running"],
])("a bulk %s of %s tasks is refused: they would match for ever", async (operation, state) => {
  const { ask } = await openTestApp();
  const filter = { states: [state] };
  const refused = await ask("POST", "/api/tasks/bulk", { operation, filter, reason: "test" });
  expectProblem(refused, 422, "INVALID_REQUEST");
  expect(refused.body.detail).toContain(`a ${state} task allows no ${operation}`);
});

test.each(["cancel", "retry", "delete"])(
  "a reason is optional for a %s of one task, of many, and of those that match",
  async (operation) => {
    const { ask } = await openTestApp();
    const id = randomUUID();
    const statuses = async (reason?: string) => {
      const query = reason === undefined ? "" : `?reason=${reason}`;
      const one =
        operation === "delete"
          ? await ask("DELETE", `/api/tasks/${id}${query}`)
          : await ask("POST", `/api/tasks/${id}/${operation}${query}`);
      const many = await ask("POST", `/api/tasks/${operation}${query}`, [id]);
      const body = { operation, filter: { queue: "q" }, ...(reason !== undefined && { reason }) };
      const bulk = await ask("POST", "/api/tasks/bulk", body);
      return [one.status, many.status, bulk.status];
    };
    // There is no such task.
    expect(await statuses()).toEqual([404, 200, 200]);
    expect(await statuses("why")).toEqual([404, 200, 200]);
    expect(await statuses("")).toEqual([422, 422, 422]);
  },
);
