/** Reports of a holder that repeat, or come after its grant has ended. */
import { expect, test } from "vitest";
import { held, openTestApp } from "../../../../../tests/support/server/app.js";

test("after a failure or a return, a report is refused because the grant has ended", async () => {
  const app = await openTestApp();
  for (const report of ["fail", "return"]) {
    const { path, grant } = await held(app);
    const { leaseId, fencingToken } = grant;
    const own = { leaseId, fencingToken };
    const error = report === "fail" ? { error: "no" } : {};
    expect((await app.ask("PUT", `${path}/${report}`, { ...own, ...error })).status).toBe(202);
    const { status, body } = await app.ask("PUT", `${path}/heartbeat`, { ...own, ttlMs: 1_000 });
    expect({ status, body }).toMatchObject({
      status: 409,
      body: {
        code: "LEASE_EXPIRED",
        detail:
          "this grant has ended: it expired, or its holder or an operator ended it; abandon the work",
      },
    });
    await app.ask("POST", `${path}/cancel`);
  }
});

test("another failure of the same grant is answered as the first, and says that it repeats", async () => {
  const app = await openTestApp();
  const { id, path, grant } = await held(app);
  const { leaseId, fencingToken } = grant;
  const report = { leaseId, fencingToken, error: "first", retryInMs: 3_600_000 };
  const recorded = { id, state: "pending", retryInMs: expect.any(Number) };
  const first = await app.ask("PUT", `${path}/fail`, report);
  expect(first).toMatchObject({ status: 202, body: { ...recorded, repeated: false } });
  const other = { leaseId, fencingToken, error: "second", final: true };
  const second = await app.ask("PUT", `${path}/fail`, other);
  expect(second).toMatchObject({ status: 202, body: { ...recorded, repeated: true } });
  const { body } = await app.ask("POST", "/api/tasks/fail", [{ id, ...other }]);
  expect(body).toMatchObject([{ status: "recorded", repeated: true, state: "pending" }]);
  expect((await app.ask("GET", path)).body).toMatchObject({ error: "first", failures: 1 });
});

test("another return of the same grant says that it repeats", async () => {
  const app = await openTestApp();
  const { id, path, grant } = await held(app);
  const { leaseId, fencingToken } = grant;
  for (const repeated of [false, true]) {
    const { status, body } = await app.ask("PUT", `${path}/return`, { leaseId, fencingToken });
    expect({ status, body }).toEqual({ status: 202, body: { id, state: "pending", repeated } });
  }
  const { body } = await app.ask("POST", "/api/tasks/return", [{ id, leaseId, fencingToken }]);
  expect(body).toEqual([{ status: "returned", repeated: true }]);
});

test("each failure of a batch has its own error, delay and whether it is final", async () => {
  const app = await openTestApp();
  const [a, b, c] = [await held(app), await held(app), await held(app)];
  const report = ({ id, grant: { leaseId, fencingToken } }: typeof a, more: object) => ({
    id,
    leaseId,
    fencingToken,
    ...more,
  });
  const { body } = await app.ask("POST", "/api/tasks/fail", [
    report(a, { error: "first", retryInMs: 3_600_000 }),
    report(b, { error: "second", final: true }),
    report(c, { error: "third", retryInMs: 0 }),
  ]);
  expect(body.map(({ state }: { state: string }) => state)).toEqual(["pending", "dead", "pending"]);
  expect(body[0].retryInMs).toBeGreaterThan(3_000_000);
  expect(body[2].retryInMs).toBe(0);
  const errors = [a, b, c].map(async ({ path }) => (await app.ask("GET", path)).body.error);
  expect(await Promise.all(errors)).toEqual(["first", "second", "third"]);
});

test("each TTL of a batch of heartbeats must be in the range", async () => {
  const app = await openTestApp();
  const { id, grant } = await held(app);
  const { leaseId, fencingToken } = grant;
  const beat = (ttlMs: number) => ({ id, leaseId, fencingToken, ttlMs });
  const { status, body } = await app.ask("POST", "/api/tasks/heartbeat", [
    beat(10_000),
    beat(3_600_000_000),
  ]);
  expect([status, body.errors?.[0]?.path]).toEqual([422, "1.ttlMs"]);
});

test("a heartbeat of one task stores progress and checkpoint, or leaves the last ones", async () => {
  const app = await openTestApp();
  const { path, grant } = await held(app);
  const { leaseId, fencingToken } = grant;
  const beat = async (more: object) => {
    const { status, body } = await app.ask("PUT", `${path}/heartbeat`, {
      leaseId,
      fencingToken,
      ...more,
    });
    expect([status, body.fencingToken]).toEqual([202, fencingToken]);
    return (await app.ask("GET", path)).body;
  };
  const [progress, checkpoint] = [{ percent: 5 }, { row: 9 }];
  expect(await beat({ progress, checkpoint })).toMatchObject({ progress, checkpoint });
  expect(await beat({})).toMatchObject({ progress, checkpoint });
  expect(await beat({ checkpoint: { row: 10 } })).toMatchObject({
    progress,
    checkpoint: { row: 10 },
  });
  expect(await beat({ progress: null })).toMatchObject({ progress: null, checkpoint: { row: 10 } });
  await app.ask("PUT", `${path}/return`, { leaseId, fencingToken });
  const { body } = await app.ask("POST", "/api/tasks/next", { processor: "next" });
  expect(body.tasks).toMatchObject([{ checkpoint: { row: 10 } }]);
});

test("a task that is enqueued over HTTP has every setting of the request", async () => {
  const app = await openTestApp();
  const settings = {
    kind: "pay",
    queue: "slow",
    priority: -2,
    maxAttempts: 5,
    crashLimit: 6,
    dedupeKey: "one",
    version: 3,
    concurrency: { key: "a", perKey: 2, order: "any", rate: { limit: 9, perMs: 1_000 } },
  };
  const backoff = { backoff: { firstMs: 50_000, longestMs: 70_000 } };
  const next = { queues: ["slow"] };
  const { path, grant } = await held(app, { ...settings, ...backoff }, next);
  expect((await app.ask("GET", path)).body).toMatchObject(settings);
  const { leaseId, fencingToken } = grant;
  const failure = { leaseId, fencingToken, error: "no" };
  const first = (await app.ask("PUT", `${path}/fail`, failure)).body;
  expect(first.retryInMs).toBeGreaterThanOrEqual(25_000);
  expect(first.retryInMs).toBeLessThanOrEqual(50_000);
  await app.ask("POST", `${path}/retry`);
  for (const retryInMs of [0, 0, null]) {
    const [task] = (await app.ask("POST", "/api/tasks/next", { processor: "w", ...next })).body
      .tasks;
    const again = { leaseId: task.leaseId, fencingToken: task.fencingToken, error: "no" };
    const { body } = await app.ask("PUT", `${path}/fail`, { ...again, retryInMs });
    if (retryInMs !== null) continue;
    // 200,000 without a limit.
    expect(body.retryInMs).toBeGreaterThanOrEqual(35_000);
    expect(body.retryInMs).toBeLessThanOrEqual(70_000);
  }
});
