/** One outcome per request, in order, each on its own, the same task as often as it stands there. */
import { PATIENT } from "../calls.js";
import {
  grantOf,
  type Held,
  LONG_TTL_MS,
  needsLockRow,
  newTaskId,
  type Section,
} from "./fixture.js";

export const batches: Section = (test, expect) => {
  test("answers in the order of the requests, good and bad ones mixed", async (fixture) => {
    await fixture.addAll(Array.from({ length: 5 }, () => ({})));
    const [a, b, c, d, e] = await fixture.claim();
    if (!a || !b || !c || !d || !e) throw new Error("five tasks");
    await fixture.complete(b, "before");
    await fixture.cancel(c);
    const unknown = { ...a, id: newTaskId() };
    const batch = [unknown, e, { ...d, token: d.token + 1 }, c, b, a].map(grantOf);
    expect(
      await fixture.heartbeatAll(batch.map((one) => ({ ...one, ttlMs: 1_000 }))),
    ).toMatchObject([
      { status: "refused", reason: "unknown" },
      { status: "renewed" },
      { status: "refused", reason: "taken" },
      { status: "refused", reason: "cancelled" },
      { status: "refused", reason: "finished" },
      { status: "renewed" },
    ]);
    expect(
      await fixture.completeAll(batch.map((one, index) => ({ ...one, output: index }))),
    ).toEqual([
      { status: "refused", reason: "unknown" },
      { status: "completed", repeated: false, output: 1 },
      { status: "refused", reason: "taken" },
      { status: "refused", reason: "cancelled" },
      { status: "completed", repeated: true, output: "before" },
      { status: "completed", repeated: false, output: 5 },
    ]);
    expect(await fixture.cancelAll([d, unknown, a, c])).toEqual([
      { status: "ok", state: "cancelled" },
      { status: "unknown" },
      { status: "conflict", state: "done" },
      { status: "ok", state: "cancelled" },
    ]);
    expect(await fixture.retryAll([a, d, unknown])).toEqual([
      { status: "conflict", state: "done" },
      { status: "ok", state: "pending" },
      { status: "unknown" },
    ]);
  });

  test("decides about a task that stands twice as if by two calls", async (fixture) => {
    const task = grantOf(await fixture.addAndHold());
    expect(
      await fixture.heartbeatAll([
        { ...task, ttlMs: LONG_TTL_MS, progress: 1 },
        { ...task, ttlMs: 2 * LONG_TTL_MS, progress: 2 },
        { ...task, ttlMs: 1_000 },
      ]),
    ).toMatchObject([
      { status: "renewed", ttlMs: LONG_TTL_MS },
      { status: "renewed", ttlMs: 2 * LONG_TTL_MS },
      { status: "renewed", ttlMs: 1_000 },
    ]);
    const { progress, remainingMs } = await fixture.view(task);
    expect(progress).toBe(2);
    expect(remainingMs).toBeGreaterThan(LONG_TTL_MS);
    expect(
      await fixture.completeAll([
        { ...task, output: "first" },
        { ...task, output: "second" },
      ]),
    ).toEqual([
      { status: "completed", repeated: false, output: "first" },
      { status: "completed", repeated: true, output: "first" },
    ]);
  });

  test("judges the reports of several grants on one task in order", async (fixture) => {
    const refused = (reason: string) => ({ status: "refused", reason });
    const wrong = (task: Held, by: number) => ({ ...grantOf(task), token: task.token + by });
    const done = await fixture.addAndHold();
    expect(
      await fixture.completeAll([
        { ...wrong(done, 1), output: 1 },
        { ...grantOf(done), output: 2 },
        { ...wrong(done, 2), output: 3 },
      ]),
    ).toMatchObject([refused("taken"), { status: "completed" }, refused("finished")]);
    const dead = await fixture.addAndHold();
    const failure = { error: "test", retryInMs: null, final: true };
    expect(
      await fixture.failAll([
        { ...wrong(dead, 1), ...failure },
        { ...grantOf(dead), ...failure },
        { ...wrong(dead, 2), ...failure },
      ]),
    ).toMatchObject([refused("taken"), { state: "dead" }, refused("finished")]);
  });

  test("does so for fail, requeue, cancel and retry too", async (fixture) => {
    const failed = grantOf(await fixture.addAndHold());
    const failure = { ...failed, error: "once", retryInMs: 60_000 };
    const recorded = await fixture.failAll([failure, { ...failure, error: "twice" }]);
    expect(recorded).toMatchObject([
      { status: "recorded", repeated: false, state: "pending", retryInMs: 60_000 },
      { status: "recorded", repeated: true, state: "pending" },
    ]);
    expect(await fixture.view(failed)).toMatchObject({ failures: 1, error: "once" });
    const held = await fixture.addAndHold();
    expect(await fixture.requeueAll([grantOf(held), grantOf(held)])).toEqual([
      { status: "returned", repeated: false },
      { status: "returned", repeated: true },
    ]);
    const ok = (state: string) => ({ status: "ok", state });
    expect(await fixture.cancelAll([held, failed, held])).toEqual([
      ok("cancelled"),
      ok("cancelled"),
      ok("cancelled"),
    ]);
    expect(await fixture.retryAll([held, held, failed])).toEqual([
      ok("pending"),
      ok("pending"),
      ok("pending"),
    ]);
    expect((await fixture.view(failed)).attempts).toHaveLength(1);
  });

  test("takes empty batches", async (fixture) => {
    const { store } = fixture;
    for (const call of [
      store.enqueue([]),
      store.heartbeat([]),
      store.complete([]),
      store.fail([]),
      store.requeue([]),
      store.cancel([]),
      store.retry([]),
    ]) {
      expect(await call).toEqual([]);
    }
  });

  test(
    "does not let one locked row keep 500 others from their heartbeat",
    async (fixture) => {
      await fixture.addAll(Array.from({ length: 501 }, () => ({})));
      // A store may give fewer at once than were asked for.
      const claimed: Held[] = [];
      await fixture.until("501 tasks are claimed", async () => {
        claimed.push(...(await fixture.claim({ limit: 501 })));
        return claimed.length === 501;
      });
      const [locked, ...others] = claimed;
      if (!locked) throw new Error("501 tasks");
      const unlock = await fixture.opened.lockRow?.(fixture.key(locked.id));
      try {
        const requests = [locked, ...others].map((task) => ({
          ...grantOf(task),
          ttlMs: LONG_TTL_MS,
        }));
        const [first, ...rest] = await fixture.store.heartbeat(requests, PATIENT);
        expect(first).toMatchObject({ status: "failed", applied: "no", retryable: true });
        expect(rest.filter(({ status }) => status === "renewed")).toHaveLength(500);
        const key = fixture.key(locked.id);
        const failed = { status: "failed", applied: "no", retryable: true };
        expect(
          await fixture.store.complete([{ ...grantOf(locked), output: 1 }], PATIENT),
        ).toMatchObject([failed]);
        expect(await fixture.store.requeue([grantOf(locked)], PATIENT)).toMatchObject([failed]);
        // `cancel` has no `timeoutMs`: on a slow machine its own limit may pass, and the outcome is uncertain.
        await fixture.until("a cancellation is refused", async () => {
          const [cancelled] = await fixture.store.cancel([key]);
          expect(cancelled).toMatchObject({ status: "failed", retryable: true });
          return cancelled?.status === "failed" && cancelled.applied === "no";
        });
        // Reads do not wait for row locks.
        expect(await fixture.view(key)).toMatchObject({ state: "running" });
      } finally {
        await unlock?.();
      }
      expect(await fixture.heartbeat(locked)).toMatchObject({ status: "renewed" });
    },
    needsLockRow,
  );

  test(
    "claims and reaps around a locked row",
    async (fixture) => {
      const { opened, store } = fixture;
      await fixture.inTime(async (ttlMs) => {
        const [queue, waiting] = [`of ${ttlMs}`, `waiting ${ttlMs}`];
        const [pending = "", expired = "", other = ""] = await fixture.addAll([
          { queue: waiting },
          { queue },
          { queue },
        ]);
        const unlocks = [await opened.lockRow?.(fixture.key(pending))];
        try {
          await fixture.claim({ queues: [queue], ttlMs });
          unlocks.push(await opened.lockRow?.(fixture.key(expired)));
          // A server may have reaped the task before this test locked it.
          if ((await fixture.view({ id: expired })).state !== "running") return false;
          await fixture.pass(ttlMs);
          expect(await fixture.claim({ queues: [waiting] })).toEqual([]);
          const reaped = await fixture.reap({ id: other });
          const byUs = store.capabilities.reaps ? [] : [other];
          expect(reaped.map(({ id }) => id)).toEqual(byUs);
          expect(await fixture.view({ id: expired })).toMatchObject({ state: "running" });
        } finally {
          for (const unlock of unlocks) await unlock?.();
        }
        expect((await fixture.hold({ queues: [waiting] })).id).toBe(pending);
        await fixture.reap({ id: expired });
        return true;
      });
    },
    needsLockRow,
  );
};
