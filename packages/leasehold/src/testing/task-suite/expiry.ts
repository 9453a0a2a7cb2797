/** A holder that is late is refused, and its task goes on without it. */
import { grantIdOf, newLeaseId, systemRandom } from "../../env/index.js";
import { type Held, needsReap, refusedAll, type Section } from "./fixture.js";

export const expiry: Section = (test, expect) => {
  test("refuses a holder after its expiry, even without a new holder", async (fixture) => {
    const held = await fixture.addAndExpire();
    expect(await fixture.useAll(held)).toEqual(refusedAll("expired"));
    await fixture.reap(held);
    expect(await fixture.useAll(held)).toEqual(refusedAll("expired"));
    expect(await fixture.view(held)).toMatchObject({ state: "pending", output: null });
  });

  test(
    "claims no expired task before it is reaped, and shows it with no time left",
    async (fixture) => {
      const held = await fixture.addAndExpire();
      expect(await fixture.claim()).toEqual([]);
      expect(await fixture.view(held)).toMatchObject({ state: "running", remainingMs: 0 });
    },
    needsReap,
  );

  test("answers a claim that comes again without what has expired meanwhile", async (fixture) => {
    const claimId = newLeaseId(systemRandom);
    const held = await fixture.addAndHold({}, { claimId, ttlMs: fixture.shortTtlMs });
    await fixture.pass(held.ttlMs);
    expect(await fixture.claim({ claimId })).toEqual([]);
    await fixture.reap(held);
    expect(await fixture.claim({ claimId })).toEqual([]);
  });

  test("hands an expired task over, and refuses its former holder for ever", async (fixture) => {
    const former = await fixture.addAndExpire();
    await fixture.reap(former);
    const next = await fixture.hold();
    expect(next).toMatchObject({ attempt: 2, crashes: 1, failures: 0 });
    expect(next.previousHolder).toBe(former.holder);
    expect(next.leaseId === former.leaseId).toBe(false);
    expect(next.token).toBeGreaterThan(former.token);
    expect(await fixture.useAll(former)).toEqual(refusedAll("taken"));
    expect(await fixture.complete(next, "ours")).toMatchObject({ status: "completed" });
    expect(await fixture.useAll(former)).toEqual(refusedAll("finished"));
    expect((await fixture.view(next)).output).toBe("ours");
  });

  test("refuses a right lease id with a wrong token, and the other way round", async (fixture) => {
    await fixture.addAll([{}, {}]);
    const [held, other] = (await fixture.claim()) as [Held, Held];
    const grantId = grantIdOf(held.leaseId);
    for (const wrong of [
      { ...held, token: held.token + 1 },
      { ...held, token: held.token - 1 },
      { ...held, leaseId: "0".repeat(48) },
      { ...held, leaseId: "" },
      // The public half with other secrets, and another task of the same claim.
      { ...held, leaseId: grantId + newLeaseId(systemRandom).slice(grantId.length) },
      { ...held, leaseId: grantId + "0".repeat(32) },
      { ...held, leaseId: other.leaseId },
    ]) {
      expect(await fixture.useAll(wrong)).toEqual(refusedAll("taken"));
    }
    expect(await fixture.heartbeat(held)).toMatchObject({ status: "renewed" });
  });

  test(
    "reaps what has expired, of every namespace, once",
    async (fixture) => {
      const alive = await fixture.addAndHold();
      const expired = await fixture.addAndExpire();
      const other = { namespace: `${fixture.namespace}-other` };
      await fixture.enqueue([fixture.newTask(other)]);
      const [foreign] = await fixture.claim({ ...other, ttlMs: fixture.shortTtlMs });
      await fixture.pass(fixture.shortTtlMs);
      const reaped = [...(await fixture.store.reap()), ...(await fixture.store.reap())].filter(
        ({ namespace }) => namespace.startsWith(fixture.namespace),
      );
      expect(reaped).toHaveLength(2);
      for (const { namespace, id, holder, token } of [expired, foreign ?? expired]) {
        const found = reaped.find((one) => one.namespace === namespace);
        expect(found).toEqual({ namespace, id, holder, token, state: "pending" });
      }
      expect((await fixture.view(alive)).state).toBe("running");
    },
    needsReap,
  );

  test(
    "reaps an expired task once when many reap at the same time",
    async (fixture) => {
      const ids = await fixture.addAll(Array.from({ length: 200 }, () => ({})));
      await fixture.claim({ limit: 200, ttlMs: fixture.shortTtlMs });
      await fixture.pass(fixture.shortTtlMs);
      const rounds = await Promise.all(Array.from({ length: 6 }, () => fixture.store.reap()));
      const reaped = [...rounds.flat(), ...(await fixture.store.reap())].filter(
        ({ namespace }) => namespace === fixture.namespace,
      );
      expect(reaped.map(({ id }) => id).sort()).toEqual(ids);
      expect(await fixture.store.counts(fixture.namespace)).toMatchObject({ pending: 200 });
    },
    needsReap,
  );

  test("puts a reaped task back in its place in the queue", async (fixture) => {
    const first = await fixture.addAndExpire();
    const second = await fixture.add();
    await fixture.reap(first);
    expect((await fixture.claim()).map(({ id }) => id)).toEqual([first.id, second.id]);
    const { scheduledAt, createdAt } = await fixture.view(first);
    expect(scheduledAt).toBe(createdAt);
  });

  test("is dead at the crash that reaches crashLimit, apart from failures", async (fixture) => {
    const { id } = await fixture.add({ crashLimit: 2, maxAttempts: 1 });
    for (const [crashes, state] of [
      [1, "pending"],
      [2, "dead"],
    ] as const) {
      const held = await fixture.hold({ ttlMs: fixture.shortTtlMs });
      await fixture.pass(held.ttlMs);
      const reaped = await fixture.reap(held);
      expect(await fixture.view({ id })).toMatchObject({ state, crashes, failures: 0 });
      if (fixture.store.capabilities.reaps) continue;
      expect(reaped).toMatchObject([{ id, holder: held.holder, token: held.token, state }]);
    }
    const { finishedAt, error } = await fixture.view({ id });
    expect([finishedAt === null, error]).toEqual([false, null]);
    expect(await fixture.claim()).toEqual([]);
  });

  test("does not bring back a task that was finished in time", async (fixture) => {
    await fixture.inTime(async (ttlMs) => {
      const queue = `completed within ${ttlMs}`;
      const held = await fixture.addAndHold({ queue }, { queues: [queue], ttlMs });
      if ((await fixture.complete(held, 1)).status === "refused") return false;
      await fixture.pass(ttlMs);
      await fixture.store.reap();
      expect(await fixture.view(held)).toMatchObject({ state: "done", output: 1, crashes: 0 });
      // Expiry does not undo what was acknowledged: a repeated complete still knows its answer.
      expect(await fixture.complete(held, 2)).toEqual({
        status: "completed",
        repeated: true,
        output: 1,
      });
      return true;
    });
  });
};
