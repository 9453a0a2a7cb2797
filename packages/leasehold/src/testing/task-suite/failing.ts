/** Failed attempts, and tasks that a worker requeues. */
import type { Section } from "./fixture.js";

const HOUR_MS = 3_600_000;

export const failing: Section = (test, expect) => {
  test("waits longer after each failure, and is dead at the maxAttempts-th", async (fixture) => {
    const { id } = await fixture.add({ maxAttempts: 4, backoff: { firstMs: 200, longestMs: 500 } });
    for (const [failures, longestMs] of [
      [1, 200],
      [2, 400],
      [3, 500],
    ] as const) {
      const held = await fixture.hold();
      expect(held).toMatchObject({ attempt: failures, failures: failures - 1 });
      const outcome = await fixture.fail(held, { error: `failure ${failures}` });
      expect(outcome).toMatchObject({ status: "recorded", state: "pending" });
      const retryInMs = outcome.status === "recorded" ? (outcome.retryInMs ?? 0) : 0;
      expect(retryInMs).toBeGreaterThanOrEqual(longestMs / 2);
      expect(retryInMs).toBeLessThanOrEqual(longestMs);
      const view = await fixture.view({ id });
      expect(view).toMatchObject({ state: "pending", failures, error: `failure ${failures}` });
      expect(view.remainingMs).toBe(null);
      await fixture.pass(retryInMs);
    }
    const held = await fixture.hold();
    expect(await fixture.fail(held, { error: "failure 4" })).toEqual({
      status: "recorded",
      repeated: false,
      state: "dead",
      retryInMs: null,
    });
    const view = await fixture.view({ id });
    expect(view).toMatchObject({ state: "dead", failures: 4, crashes: 0, error: "failure 4" });
    expect(view.finishedAt === null).toBe(false);
    expect(await fixture.claim()).toEqual([]);
  });

  test("waits by the number of its failures, however often it was requeued or crashed", async (fixture) => {
    const backoff = {
      backoff: { firstMs: 60_000, longestMs: HOUR_MS },
      maxAttempts: 9,
      crashLimit: 9,
    };
    await fixture.add(backoff);
    for (let attempt = 0; attempt < 3; attempt += 1) await fixture.requeue(await fixture.hold());
    const crashed = await fixture.hold({ ttlMs: fixture.shortTtlMs });
    await fixture.pass(crashed.ttlMs);
    await fixture.reap(crashed);
    const fifth = await fixture.hold();
    expect(fifth).toMatchObject({ attempt: 5, failures: 0, crashes: 1 });
    const outcome = await fixture.fail(fifth);
    const retryInMs = outcome.status === "recorded" ? (outcome.retryInMs ?? 0) : 0;
    expect(retryInMs).toBeGreaterThanOrEqual(30_000);
    expect(retryInMs).toBeLessThanOrEqual(60_000);
  });

  test("is not claimed again before its time", async (fixture) => {
    const held = await fixture.addAndHold({ backoff: { firstMs: HOUR_MS, longestMs: HOUR_MS } });
    const outcome = await fixture.fail(held);
    const retryInMs = outcome.status === "recorded" ? outcome.retryInMs : null;
    expect(retryInMs).toBeGreaterThanOrEqual(HOUR_MS / 2);
    expect(await fixture.claim()).toEqual([]);
    const { scheduledAt, startedAt } = await fixture.view(held);
    expect(Date.parse(scheduledAt)).toBeGreaterThan(Date.parse(startedAt ?? ""));
  });

  test("waits as the factor and the jitter of its backoff say", async (fixture) => {
    const backoff = { firstMs: 100, longestMs: 500, factor: 3, jitter: 0 };
    await fixture.add({ maxAttempts: 9, backoff });
    const waits: (number | null)[] = [];
    for (const _ of [1, 2, 3]) {
      const outcome = await fixture.fail(await fixture.hold(), { error: "again" });
      if (outcome.status !== "recorded") throw new Error(outcome.status);
      waits.push(outcome.retryInMs);
      await fixture.pass(outcome.retryInMs ?? 0);
    }
    expect(waits).toEqual([100, 300, 500]);
  });

  test("does not wait when its backoff is 0, however often it has failed", async (fixture) => {
    await fixture.add({ maxAttempts: 100, backoff: { firstMs: 86_400_000, longestMs: 0 } });
    // By then 86,400,000 x 2^n is beyond 64 bits.
    for (let failures = 1; failures <= 45; failures += 1) {
      const outcome = await fixture.fail(await fixture.hold());
      expect(outcome).toEqual({
        status: "recorded",
        repeated: false,
        state: "pending",
        retryInMs: 0,
      });
    }
  });

  test("takes the worker's own delay, zero included", async (fixture) => {
    const held = await fixture.addAndHold({ backoff: { firstMs: HOUR_MS, longestMs: HOUR_MS } });
    expect(await fixture.fail(held, { retryInMs: 0 })).toEqual({
      status: "recorded",
      repeated: false,
      state: "pending",
      retryInMs: 0,
    });
    const again = await fixture.hold();
    expect(again).toMatchObject({ id: held.id, failures: 1 });
    expect(await fixture.fail(again, { retryInMs: 12_345 })).toMatchObject({ retryInMs: 12_345 });
    expect(await fixture.claim()).toEqual([]);
  });

  test("is dead at once when the failure is final", async (fixture) => {
    const held = await fixture.addAndHold({ maxAttempts: 100 });
    expect(await fixture.fail(held, { final: true, retryInMs: 0, error: "hopeless" })).toEqual({
      status: "recorded",
      repeated: false,
      state: "dead",
      retryInMs: null,
    });
    expect(await fixture.view(held)).toMatchObject({
      state: "dead",
      failures: 1,
      error: "hopeless",
    });
  });

  test("counts a failure once, however often it is reported", async (fixture) => {
    const held = await fixture.addAndHold();
    const first = await fixture.fail(held, { retryInMs: HOUR_MS, error: "first" });
    expect(first).toMatchObject({ status: "recorded", state: "pending", repeated: false });
    const again = await fixture.fail(held, { retryInMs: 0, error: "second", final: true });
    expect(again).toMatchObject({ status: "recorded", state: "pending", repeated: true });
    const leftMs = again.status === "recorded" ? (again.retryInMs ?? 0) : 0;
    expect(leftMs).toBeGreaterThan(HOUR_MS / 2);
    expect(leftMs).toBeLessThanOrEqual(HOUR_MS);
    expect(await fixture.view(held)).toMatchObject({ failures: 1, error: "first" });
    await fixture.retry(held);
    const next = await fixture.hold();
    expect(await fixture.fail(held)).toEqual({ status: "refused", reason: "taken" });
    expect(await fixture.complete(next)).toMatchObject({ status: "completed" });
  });

  test("keeps any text of an error that a database can keep", async (fixture) => {
    for (const [error, kept] of [
      ["", ""],
      ["ünïcödé 🦊 \\ ' \" $1 {} \n", "ünïcödé 🦊 \\ ' \" $1 {} \n"],
      ["NUL \u0000 in it", "NUL \ufffd in it"],
      ["half a fox: \ud83e", "half a fox: \ufffd"],
      ["x".repeat(100_000), "x".repeat(100_000)],
    ] as const) {
      const held = await fixture.addAndHold();
      expect(await fixture.fail(held, { error, final: true })).toMatchObject({ state: "dead" });
      const view = await fixture.view(held);
      expect(view.error).toBe(kept);
      expect(view.attempts[0]?.error).toBe(kept);
    }
  });

  test("requeues at once, counts nothing and keeps the queue position", async (fixture) => {
    const [first, second] = await fixture.addAll([{ maxAttempts: 1, crashLimit: 1 }, {}]);
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      const held = await fixture.hold({ limit: 1 });
      expect(held).toMatchObject({ id: first, attempt, failures: 0, crashes: 0 });
      expect(await fixture.requeue(held)).toEqual({ status: "returned", repeated: false });
      expect(await fixture.requeue(held)).toEqual({ status: "returned", repeated: true });
      expect(await fixture.complete(held)).toEqual({ status: "refused", reason: "expired" });
      expect(await fixture.heartbeat(held)).toEqual({ status: "refused", reason: "expired" });
    }
    const tasks = await fixture.claim();
    expect(tasks.map(({ id }) => id)).toEqual([first, second]);
  });
};
