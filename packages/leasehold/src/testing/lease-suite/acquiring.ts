import { grantIdOf, systemClock } from "../../env/index.js";
import { grantOf, needsStoreClock, type Section } from "./fixture.js";

export const acquiring: Section = (test, expect) => {
  test("grants a free key, for what was asked or longer", async (t) => {
    const { answer, ttlMs } = await t.hold();
    expect(Number.isSafeInteger(answer.token)).toBe(true);
    expect(answer.token).toBeGreaterThan(0);
    expect(answer.ttlMs).toBeGreaterThanOrEqual(ttlMs);
    expect(answer.remainingMs).toBeGreaterThan(0);
    expect(answer.remainingMs).toBeLessThanOrEqual(answer.ttlMs);
    if (answer.expiresAt !== null) expect(answer.expiresAt).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  });

  test("answers who holds a key that is taken", async (t) => {
    const held = await t.hold();
    const outcome = await t.acquire(t.request(t.key()));
    expect(outcome).toMatchObject({ status: "held", holder: held.holder });
    if (outcome.status !== "held") return;
    if (outcome.grantId !== null) expect(outcome.grantId).toBe(grantIdOf(held.leaseId));
    if (outcome.remainingMs !== null) {
      expect(outcome.remainingMs).toBeGreaterThan(0);
      expect(outcome.remainingMs).toBeLessThanOrEqual(held.answer.ttlMs);
    }
  });

  test("gives no right to a name: the same holder is refused under another lease id", async (t) => {
    const { holder } = await t.hold();
    const outcome = await t.acquire(t.request(t.key(), { holder }));
    expect(outcome).toMatchObject({ status: "held", holder });
  });

  test("answers a repeated request with the same grant", async (t) => {
    const held = await t.hold();
    const repeated = t.expectAcquired(await t.acquire(held));
    expect(repeated.token).toBe(held.answer.token);
  });

  test(
    "does not extend a grant by a repeated request, not even by one for longer",
    async (t) => {
      const held = await t.hold();
      const beganMs = systemClock.monotonic();
      await t.pass(200);
      const passedMs = t.opened.advance ? 200 : systemClock.monotonic() - beganMs;
      const { maxMs } = t.store.capabilities.ttl;
      const ttlMs = Math.min(maxMs, held.ttlMs * 2);
      const repeated = t.expectAcquired(await t.acquire({ ...held, ttlMs }));
      expect(repeated.ttlMs).toBe(held.answer.ttlMs);
      // Two clocks: the store's may run slower than ours by a percent.
      const latestMs = held.answer.remainingMs - passedMs * 0.99;
      expect(repeated.remainingMs).toBeLessThanOrEqual(latestMs + 1);
    },
    needsStoreClock,
  );

  test("answers `ended` to a repeated request after a release", async (t) => {
    const held = await t.hold();
    await t.release(held);
    expect(await t.acquire(held)).toEqual({ status: "ended" });
    await t.hold();
  });

  test("answers `ended` to a repeated request after a revoke that freed the key", async (t) => {
    const held = await t.hold();
    await t.revoke(held, "now");
    expect(await t.acquire(held)).toEqual({ status: "ended" });
    await t.hold();
  });

  test("answers `ended` to a repeated request after a revoke at expiry", async (t) => {
    await t.inTime(async (ttlMs) => {
      const key = t.key(`ttl ${ttlMs}`);
      const held = await t.hold(key, { ttlMs });
      const { status } = await t.revoke(held, "atExpiry");
      if (status !== "revoked") return false;
      expect(await t.acquire(held)).toEqual({ status: "ended" });
      await t.expire(held);
      expect(await t.acquire(held)).toEqual({ status: "ended" });
      await t.hold(key);
      return true;
    });
  });

  test(
    "answers `ended` to a repeated request after expiry, even without a new holder",
    async (t) => {
      const held = await t.hold(t.key(), { ttlMs: t.shortTtlMs });
      await t.expire(held);
      expect(await t.acquire(held)).toEqual({ status: "ended" });
      await t.hold();
      expect(await t.acquire(held)).toMatchObject({ status: "held" });
    },
    needsStoreClock,
  );

  test("grants anew no earlier than the expiry, and then does", async (t) => {
    const first = await t.hold(t.key(), { ttlMs: t.shortTtlMs });
    if (t.opened.advance) {
      await t.opened.advance(first.answer.ttlMs - 1);
      expect(await t.acquire(t.request(t.key()))).toMatchObject({ status: "held", remainingMs: 1 });
      await t.opened.advance(1 + t.store.capabilities.epsilonMs);
      await t.hold();
      return;
    }
    const next = t.request(t.key());
    await t.until("the key is granted anew", async () => {
      const { status } = await t.acquire(next);
      return status === "acquired";
    });
    // It was granted after we asked, and its successor before we heard: noise adds, never takes.
    const apartMs = systemClock.monotonic() - first.sentMs;
    expect(apartMs).toBeGreaterThanOrEqual(first.answer.ttlMs * 0.99);
  });

  test("keeps other keys of the namespace out of it", async (t) => {
    const first = await t.hold(t.key("a"));
    const second = await t.hold(t.key("b"));
    await t.release(first);
    expect(await t.renew(second)).toMatchObject({ status: "renewed" });
    expect(await t.renew({ ...grantOf(second), resource: "a" })).toMatchObject({ status: "lost" });
  });

  test("takes every ttl of its range, at both ends and between two steps", async (t) => {
    const { minMs, maxMs, stepMs } = t.store.capabilities.ttl;
    for (const ttlMs of new Set([minMs, Math.min(minMs + 1, maxMs), maxMs - 1, maxMs])) {
      const held = await t.hold(t.key(`ttl ${ttlMs}`), { ttlMs });
      const { answer } = held;
      expect(answer.ttlMs).toBeGreaterThanOrEqual(ttlMs);
      expect(answer.ttlMs).toBeLessThan(ttlMs + stepMs);
      expect(answer.remainingMs).toBeGreaterThanOrEqual(0);
      expect(answer.remainingMs).toBeLessThanOrEqual(answer.ttlMs);
      // A grant of the longest TTL would last for weeks in a store that outlives the suite.
      await t.release(held);
    }
  });
};
