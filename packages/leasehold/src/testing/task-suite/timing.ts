/** Limits of time: how long an attempt may run, by when a task must begin, and tasks that are put off. */
import { LONG_TTL_MS, type Need, needsPush, type Section } from "./fixture.js";
import { declare, needsLimits } from "./limit-fixture.js";
import type { TaskChange } from "./new-task.js";

/** Behind a server, a claim waits there. */
const needsAnnouncements: Need = (fixture) =>
  fixture.store.capabilities.remoteWait
    ? "the server claims for those who wait"
    : needsPush(fixture);

const HOUR_MS = 3_600_000;
const RUN_MS = 400;
const GRACE_MS = 300;
const GRACE = { graceMs: GRACE_MS };
const LATEST_MS = RUN_MS + GRACE_MS;
const IN_ORDER = { key: "k", perKey: 1, order: "fifo" } as const;

export const timing: Section = (test, expect) => {
  test("lets no lease outlive maxRunMs and the grace of its claim", async (fixture) => {
    const held = await fixture.addAndHold({ maxRunMs: RUN_MS }, GRACE);
    expect(held).toMatchObject({ maxRunMs: RUN_MS, ttlMs: LONG_TTL_MS });
    expect(held.remainingMs).toBeGreaterThan(0);
    expect(held.remainingMs).toBeLessThanOrEqual(LATEST_MS);
    await fixture.pass(RUN_MS / 4);
    const renewed = await fixture.heartbeat(held);
    expect(renewed).toMatchObject({ status: "renewed" });
    const leftMs = renewed.status === "renewed" ? renewed.remainingMs : 0;
    expect(leftMs).toBeLessThanOrEqual(LATEST_MS - RUN_MS / 4);
    await fixture.pass(leftMs);
    expect(await fixture.heartbeat(held)).toMatchObject({ status: "refused" });
    await fixture.reap(held);
    expect(await fixture.view(held)).toMatchObject({
      state: "pending",
      maxRunMs: RUN_MS,
      failures: 0,
      crashes: 1,
    });
    expect(await fixture.complete(held)).toEqual({ status: "refused", reason: "expired" });
    // The next attempt has all of the time.
    const again = await fixture.hold(GRACE);
    expect(again.token).toBeGreaterThan(held.token);
    expect(again.remainingMs).toBeGreaterThan(leftMs);
  });

  test("lets a shorter lease expire, whatever maxRunMs allows", async (fixture) => {
    const ttlMs = fixture.shortTtlMs;
    const held = await fixture.addAndHold({ maxRunMs: HOUR_MS }, { ttlMs });
    expect(held.remainingMs).toBeLessThanOrEqual(ttlMs);
    const renewed = await fixture.heartbeat(held, { ttlMs: 2 * ttlMs });
    expect(renewed).toMatchObject({ status: "renewed", ttlMs: 2 * ttlMs });
  });

  test("does not limit the other tasks of the claim", async (fixture) => {
    await fixture.addAll([{ maxRunMs: RUN_MS }, {}]);
    const [limited, other] = await fixture.claim(GRACE);
    if (!limited || !other) throw new Error("both were due");
    expect(other).toMatchObject({ maxRunMs: null, remainingMs: LONG_TTL_MS });
    await fixture.pass(LATEST_MS);
    expect(await fixture.heartbeat(limited)).toMatchObject({ status: "refused" });
    expect(await fixture.heartbeat(other)).toMatchObject({ status: "renewed" });
  });

  test("holds a task for six seconds after maxRunMs by default", async (fixture) => {
    const { remainingMs } = await fixture.addAndHold({ maxRunMs: RUN_MS });
    expect(remainingMs).toBeGreaterThan(RUN_MS + 5_000);
    expect(remainingMs).toBeLessThanOrEqual(RUN_MS + 6_000);
  });

  test("limits a task with a concurrency key, and a repeated claim", async (fixture) => {
    await fixture.add({ maxRunMs: RUN_MS, concurrency: IN_ORDER });
    const request = fixture.claimRequest(GRACE);
    for (let time = 0; time < 2; time += 1) {
      const { remainingMs } = await fixture.hold(request);
      expect(remainingMs).toBeLessThanOrEqual(LATEST_MS);
    }
  });

  test("expires a task that has not begun in time", async (fixture) => {
    const { id } = await fixture.add({ startByMs: RUN_MS, dedupeKey: "one" });
    const { scheduledAt, startBy } = await fixture.view({ id });
    expect(Date.parse(startBy ?? "") - Date.parse(scheduledAt)).toBe(RUN_MS);
    await fixture.pass(RUN_MS);
    expect(await fixture.claim()).toEqual([]);
    await fixture.untilExpired({ id });
    const view = await fixture.view({ id });
    expect(view).toMatchObject({ attempt: 0, failures: 0, error: null, attempts: [] });
    expect(view.finishedAt === null).toBe(false);
    const { namespace } = fixture;
    expect(await fixture.store.counts(namespace)).toMatchObject({ pending: 0, expired: 1 });
    const { items } = await fixture.store.list({ namespace, states: ["expired"] });
    expect(items.map((item) => item.id)).toEqual([id]);
    const results = await fixture.store.results([fixture.key(id)]);
    expect(results).toEqual([{ id, state: "expired", error: null }]);
    const stats = await fixture.store.stats({ namespace, limit: 100 });
    expect(stats.items).toMatchObject([{ pending: 0, due: 0, expired: 1 }]);
    expect(await fixture.cancel({ id })).toEqual({ status: "conflict", state: "expired" });
    // It does not count for its dedupeKey any more.
    await fixture.add({ dedupeKey: "one" });
  });

  test("gives a task that starts over no time by which it must begin", async (fixture) => {
    const { id } = await fixture.add({ startByMs: RUN_MS });
    await fixture.pass(RUN_MS);
    await fixture.untilExpired({ id });
    expect(await fixture.retry({ id })).toEqual({ status: "ok", state: "pending" });
    expect(await fixture.view({ id })).toMatchObject({ startBy: null, finishedAt: null });
    expect(await fixture.hold()).toMatchObject({ id });
  });

  test("deletes a task that is expired", async (fixture) => {
    const { id } = await fixture.add({ startByMs: RUN_MS });
    await fixture.pass(RUN_MS);
    await fixture.untilExpired({ id });
    expect(await fixture.delete({ id })).toEqual({ status: "ok", state: "expired" });
  });

  test("lets a task that has begun in time be tried again at any time", async (fixture) => {
    const held = await fixture.addAndHold({ startByMs: RUN_MS });
    await fixture.fail(held, { retryInMs: 0 });
    await fixture.pass(RUN_MS);
    await fixture.store.reap();
    expect(await fixture.hold()).toMatchObject({ id: held.id, attempt: 2 });
  });

  test("lets a late task keep back none behind it", async (fixture) => {
    const late: TaskChange[] = Array.from({ length: 5 }, () => ({ startByMs: RUN_MS }));
    await fixture.addAll([...late, { concurrency: IN_ORDER, startByMs: RUN_MS }]);
    const [plain, keyed] = await fixture.addAll([{}, { concurrency: IN_ORDER }]);
    await fixture.pass(RUN_MS);
    const claimed = [
      ...(await fixture.claim({ limit: 1 })),
      ...(await fixture.claim({ limit: 1 })),
    ];
    expect(claimed.map(({ id }) => id)).toEqual([plain, keyed]);
  });

  test(
    "expires a late task of a limited kind",
    async (fixture) => {
      await declare(fixture, { running: 5 });
      await fixture.add({ startByMs: RUN_MS });
      const { id } = await fixture.add();
      await fixture.pass(RUN_MS);
      expect((await fixture.claim()).map((task) => task.id)).toEqual([id]);
    },
    needsLimits,
  );

  test("puts a task off, and counts no failure", async (fixture) => {
    const held = await fixture.addAndHold({ maxAttempts: 1, crashLimit: 1 });
    expect(held.postponed).toBe(0);
    const later = { retryInMs: HOUR_MS, reason: "the bank is closed" };
    const returned = { status: "returned", repeated: false };
    expect(await fixture.requeue(held, later)).toEqual(returned);
    const view = await fixture.view(held);
    expect(view).toMatchObject({ state: "pending", postponed: 1, failures: 0, crashes: 0 });
    expect(view.attempts).toMatchObject([{ result: "returned", error: "the bank is closed" }]);
    expect(view.error).toBe(null);
    const ended = Date.parse(view.attempts[0]?.endedAt ?? "");
    expect(Math.abs(Date.parse(view.scheduledAt) - ended - HOUR_MS)).toBeLessThanOrEqual(1);
    expect(await fixture.claim()).toEqual([]);
    // A repeated request changes nothing.
    expect(await fixture.requeue(held, { retryInMs: 0 })).toEqual({ ...returned, repeated: true });
    expect(await fixture.view(held)).toMatchObject({ postponed: 1 });
    expect(await fixture.claim()).toEqual([]);
    await fixture.retry(held);
    expect(await fixture.hold()).toMatchObject({ id: held.id, postponed: 0, attempt: 2 });
  });

  test("puts a task off until a time that passes", async (fixture) => {
    const held = await fixture.addAndHold();
    await fixture.requeue(held, { retryInMs: RUN_MS });
    expect(await fixture.claim()).toEqual([]);
    await fixture.pass(RUN_MS);
    const again = await fixture.hold();
    expect(again).toMatchObject({ id: held.id, postponed: 1 });
    // A requeue without a delay keeps the place in the queue, and is no postponement.
    await fixture.requeue(again, { reason: "the worker ends" });
    expect(await fixture.hold()).toMatchObject({ postponed: 1, attempt: 3 });
  });

  test(
    "announces a task that becomes due soon",
    async (fixture) => {
      const watching = await fixture.watch();
      const held = await fixture.addAndHold();
      const { startedAt } = await fixture.view(held);
      const inMs = (ms: number) => new Date(Date.parse(startedAt ?? "") + ms).toISOString();
      await fixture.addAll([{ scheduledAt: inMs(100_000) }, { scheduledAt: inMs(86_400_000) }]);
      await fixture.requeue(held, { retryInMs: 50_000 });
      const announced = () =>
        watching.events.flatMap((event) => (event.type === "ready" ? (event.inMs ?? []) : []));
      await fixture.until("two tasks are announced", () => announced().length >= 2);
      const [scheduled = 0, later = 0] = announced();
      expect([scheduled > 90_000, scheduled < 110_000]).toEqual([true, true]);
      expect([later > 40_000, later < 60_000]).toEqual([true, true]);
      await watching.stop();
    },
    needsAnnouncements,
  );
};
