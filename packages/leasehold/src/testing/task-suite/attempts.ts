/** Tokens grow, and the last attempts at a task are kept, with all that happened in them. */
import { grantIdOf } from "../../env/index.js";
import type { Held, Section } from "./fixture.js";

export const attempts: Section = (test, expect) => {
  test("gives each grant of a task a larger token, however the one before ended", async (fixture) => {
    const { id } = await fixture.add({ maxAttempts: 100, crashLimit: 100 });
    const expire = async (held: Held) => {
      await fixture.pass(held.ttlMs);
      await fixture.reap(held);
    };
    const endings: ((held: Held) => Promise<unknown>)[] = [
      expire,
      (held) => fixture.requeue(held),
      (held) => fixture.fail(held, { retryInMs: 0 }),
      async (held) => {
        await fixture.cancel(held);
        await fixture.retry(held);
      },
      async (held) => {
        await fixture.fail(held, { final: true });
        await fixture.retry(held);
      },
    ];
    let last = 0;
    for (let round = 0; round < 2; round += 1) {
      for (const end of endings) {
        // Only the lease that must expire is short; the others must survive a slow machine.
        const held = await fixture.hold(end === expire ? { ttlMs: fixture.shortTtlMs } : {});
        expect(held.id).toBe(id);
        expect(held.token).toBeGreaterThan(last);
        expect(Number.isSafeInteger(held.token)).toBe(true);
        last = held.token;
        await end(held);
      }
    }
  });

  test("keeps the last hundred attempts of a task that is returned again and again", async (fixture) => {
    const { id } = await fixture.add();
    for (let attempt = 1; attempt <= 120; attempt += 1) await fixture.requeue(await fixture.hold());
    const numbers = async () => (await fixture.view({ id })).attempts.map(({ attempt }) => attempt);
    expect(await numbers()).toEqual(Array.from({ length: 100 }, (_, index) => 21 + index));
    const running = await fixture.hold();
    expect(await numbers()).toEqual(Array.from({ length: 100 }, (_, index) => 22 + index));
    await fixture.complete(running);
    expect(await numbers()).toHaveLength(100);
  });

  test("returns the last attempts whose errors and progress have 1 MiB together", async (fixture) => {
    const { id } = await fixture.add({ maxAttempts: 100 });
    const large = "x".repeat(100_000);
    const fail = async () => {
      const held = await fixture.hold();
      await fixture.heartbeat(held, { progress: large });
      await fixture.fail(held, { error: large, retryInMs: 0 });
    };
    const numbers = async () => (await fixture.view({ id })).attempts.map(({ attempt }) => attempt);
    for (let attempt = 1; attempt <= 6; attempt += 1) await fail();
    expect(await numbers()).toEqual([2, 3, 4, 5, 6]);
    const held = await fixture.hold();
    expect(await numbers()).toEqual([2, 3, 4, 5, 6, 7]);
    await fixture.heartbeat(held, { progress: large });
    expect(await numbers()).toEqual([3, 4, 5, 6, 7]);
  });

  test("keeps every attempt: who, which grant, when, how it ended", async (fixture) => {
    const { id } = await fixture.add({ maxAttempts: 100 });
    const holders: Held[] = [];
    const hold = async (ttlMs = 60_000) => {
      const held = await fixture.hold({ ttlMs, holder: `worker ${holders.length + 1}` });
      holders.push(held);
      return held;
    };
    const failed = await hold();
    await fixture.heartbeat(failed, { progress: { percent: 10 } });
    await fixture.fail(failed, { error: "no luck", retryInMs: 0 });
    await fixture.requeue(await hold());
    const crashed = await hold(fixture.shortTtlMs);
    await fixture.pass(crashed.ttlMs);
    await fixture.reap(crashed);
    const cancelled = await hold();
    await fixture.cancel(cancelled);
    await fixture.retry(cancelled);
    const running = await hold();
    await fixture.heartbeat(running, { progress: [1, 2] });

    const during = await fixture.view({ id });
    const expected = [
      { result: "failed", error: "no luck", progress: { percent: 10 } },
      { result: "returned", error: null, progress: null },
      { result: "expired", error: null, progress: null },
      { result: "cancelled", error: null, progress: null },
      { result: null, error: null, progress: [1, 2] },
    ].map((attempt, index) => ({
      ...attempt,
      attempt: index + 1,
      holder: `worker ${index + 1}`,
      token: holders[index]?.token,
      grantId: grantIdOf(holders[index]?.leaseId ?? ""),
    }));
    expect(during.attempts).toMatchObject(expected);
    expect(during.attempts).toHaveLength(5);
    expect(during).toMatchObject({ attempt: 5, progress: [1, 2], error: "no luck" });

    await fixture.complete(running, "done");
    const after = await fixture.view({ id });
    expect(after.attempts.slice(0, 4)).toEqual(during.attempts.slice(0, 4));
    expect(after.attempts[4]).toEqual({
      ...during.attempts[4],
      result: "done",
      endedAt: after.finishedAt,
    });
    let previous = "";
    for (const { startedAt, endedAt } of after.attempts) {
      expect(startedAt >= previous && (endedAt ?? "") >= startedAt).toBe(true);
      previous = endedAt ?? "";
    }
  });

  test("keeps the progress of an attempt until the next one begins", async (fixture) => {
    const held = await fixture.addAndHold();
    await fixture.heartbeat(held, { progress: "half" });
    await fixture.heartbeat(held);
    expect((await fixture.view(held)).progress).toBe("half");
    await fixture.heartbeat(held, { progress: null });
    expect((await fixture.view(held)).progress).toBe(null);
    await fixture.heartbeat(held, { progress: "nearly" });
    await fixture.fail(held, { retryInMs: 0 });
    expect((await fixture.view(held)).progress).toBe("nearly");
    await fixture.hold();
    const view = await fixture.view(held);
    expect([view.progress, view.attempts[0]?.progress]).toEqual([null, "nearly"]);
    expect(view.heartbeatAt).toBe(null);
  });

  test("begins each attempt anew in a claim from several queues, and of a key, too", async (fixture) => {
    const concurrency = { key: "key", perKey: 1, order: "fifo" } as const;
    const queues = ["queue", "another"];
    for (const [task, claims] of [
      [{}, { queues }],
      [{ concurrency }, {}],
      [{ concurrency }, { queues }],
    ] as const) {
      const first = await fixture.addAndHold(task, { ...claims, holder: "worker 1" });
      await fixture.heartbeat(first, { progress: "half" });
      await fixture.fail(first, { error: "no luck", retryInMs: 0 });
      const second = await fixture.hold({ ...claims, holder: "worker 2" });
      expect(second).toMatchObject({ id: first.id, attempt: 2, previousHolder: "worker 1" });
      expect(second.token).toBeGreaterThan(first.token);
      const view = await fixture.view(second);
      expect(view).toMatchObject({ holder: "worker 2", progress: null, heartbeatAt: null });
      expect(view.attempts).toMatchObject([
        { holder: "worker 1", result: "failed", progress: "half" },
        { holder: "worker 2", result: null, progress: null },
      ]);
      await fixture.complete(second);
    }
  });

  test("never shows a lease id", async (fixture) => {
    const first = await fixture.addAndHold();
    await fixture.fail(first, { retryInMs: 0 });
    const second = await fixture.hold();
    const seen = JSON.stringify([
      await fixture.view(first),
      await fixture.store.list({ namespace: fixture.namespace }),
      await fixture.complete(second),
      await fixture.view(first),
      await fixture.store.list({ namespace: fixture.namespace }),
    ]);
    const secrets = [first, second].map(({ leaseId }) => leaseId.slice(-32));
    for (const secret of [...secrets, "leaseId", "lease_id", "claimId"]) {
      expect(seen.includes(secret)).toBe(false);
    }
    expect(seen.includes(grantIdOf(second.leaseId))).toBe(true);
  });
};
