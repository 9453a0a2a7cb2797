/** Operations on many tasks in one request: each has its own fields. */
import { expect, test } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";

test("each heartbeat of a batch stores its own progress, or leaves the last one", async () => {
  const { ask } = await openTestApp();
  await ask("POST", "/api/tasks", [{ task_data: 0 }, { task_data: 1 }, { task_data: 2 }]);
  const { body } = await ask("POST", "/api/tasks/next", { processor: "w", limit: 3 });
  interface Claimed {
    readonly id: string;
    readonly leaseId: string;
    readonly fencingToken: number;
    readonly task_data: number;
  }
  const claimed: Claimed[] = body.tasks;
  const beat = async (progressOf: (n: number) => object) => {
    const beats = claimed.map(({ id, leaseId, fencingToken, task_data }) => ({
      id,
      leaseId,
      fencingToken,
      ...progressOf(task_data),
    }));
    const answer = await ask("POST", "/api/tasks/heartbeat", beats);
    expect(answer.body.map(({ status }: { status: string }) => status)).toEqual(
      claimed.map(() => "renewed"),
    );
  };
  const progress = async () =>
    Promise.all(
      claimed.map(async ({ id, task_data }) => [
        task_data,
        (await ask("GET", `/api/tasks/${id}`)).body.progress,
      ]),
    );
  await beat((n) => ({ progress: { done: n } }));
  const all = claimed.map(({ task_data }) => [task_data, { done: task_data }]);
  expect(await progress()).toEqual(all);
  await beat((n) => (n === 1 ? { progress: null } : {}));
  expect(await progress()).toEqual(all.map(([n, value]) => [n, n === 1 ? null : value]));
});

test("repeated completes of one request return 256 KiB of outputs, or that of one", async () => {
  const { ask } = await openTestApp({ limits: { bodyBytes: 512 * 1_024 } });
  const done: object[] = [];
  const add = async (length: number) => {
    await ask("POST", "/api/tasks", { task_data: null });
    const { body } = await ask("POST", "/api/tasks/next", { processor: "w" });
    const { id, leaseId, fencingToken } = body.tasks[0];
    const grant = { id, leaseId, fencingToken };
    const output = { leaseId, fencingToken, task_output: "x".repeat(length - 2) };
    expect((await ask("PUT", `/api/tasks/${id}/complete`, output)).status).toBe(202);
    done.push(grant);
  };
  for (const kib of [100, 156, 1, 1]) await add(kib * 1_024);
  const repeat = async (grants: readonly object[]) =>
    (await ask("POST", "/api/tasks/complete", grants)).body.map(
      (outcome: { status: string; task_output?: string; applied?: string }) =>
        outcome.status === "completed" ? outcome.task_output?.length : outcome.applied,
    );
  const [a, b] = [100 * 1_024 - 2, 156 * 1_024 - 2];
  expect(await repeat(done)).toEqual([a, b, "no", "no"]);
  expect(await repeat(done.slice(2))).toEqual([1_022, 1_022]);
  expect(await repeat(done.toReversed())).toEqual([1_022, 1_022, b, "no"]);
  await add(400 * 1_024);
  expect(await repeat(done.slice(-1))).toEqual([400 * 1_024 - 2]);
  const refused = await ask("POST", "/api/tasks/complete", done);
  expect(refused.body.at(-1)).toMatchObject({ status: "failed", applied: "no", retryable: true });
});
