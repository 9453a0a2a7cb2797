import { newLeaseId, systemRandom } from "../../env/index.js";
import { needsStoreClock, type Section } from "./fixture.js";

export const renewing: Section = (test, expect) => {
  const lost = (reason: string) => ({ status: "lost", reason });

  test("extends a grant", async (t) => {
    await t.inTime(async (ttlMs) => {
      const held = await t.hold(t.key(`ttl ${ttlMs}`), { ttlMs });
      const outcome = await t.renew(held);
      if (outcome.status !== "renewed") return false;
      expect(outcome.ttlMs).toBeGreaterThanOrEqual(t.longTtlMs);
      expect(outcome.remainingMs).toBeGreaterThan(held.answer.ttlMs);
      expect(outcome.remainingMs).toBeLessThanOrEqual(outcome.ttlMs);
      // Long enough for any engine to free what was not extended.
      await t.pass(held.answer.ttlMs + t.store.capabilities.epsilonMs);
      expect(await t.acquire(t.request(held))).toMatchObject({ status: "held" });
      return true;
    });
  });

  test("never shortens a grant", async (t) => {
    const held = await t.hold();
    const outcome = await t.renew(held, t.shortTtlMs);
    expect(outcome).toMatchObject({ status: "renewed" });
    if (outcome.status !== "renewed") return;
    if (t.opened.advance) expect(outcome.remainingMs).toBe(held.answer.remainingMs);
    else expect(outcome.remainingMs).toBeGreaterThan(t.longTtlMs / 2);
    // Nor by one that compares itself with the first alone.
    expect(await t.renew(held, t.shortTtlMs)).toMatchObject({ status: "renewed" });
    await t.pass(t.shortTtlMs + t.store.capabilities.epsilonMs);
    expect(await t.acquire(t.request(t.key()))).toMatchObject({ status: "held" });
    expect(await t.renew(held)).toMatchObject({ status: "renewed" });
  });

  test(
    "is refused after expiry, even without a new holder, and changes nothing",
    async (t) => {
      const held = await t.hold(t.key(), { ttlMs: t.shortTtlMs });
      await t.expire(held);
      expect(await t.renew(held)).toEqual(lost("expired"));
      expect(await t.renew(held)).toEqual(lost("expired"));
      expect(await t.view(held)).toMatchObject({ state: "expired", remainingMs: 0 });
      await t.hold();
    },
    needsStoreClock,
  );

  test("is refused after another holder has taken over", async (t) => {
    const held = await t.hold(t.key(), { ttlMs: t.shortTtlMs });
    await t.expire(held);
    const successor = await t.hold();
    expect(await t.renew(held)).toEqual(lost("taken"));
    expect(await t.renew(successor)).toMatchObject({ status: "renewed" });
  });

  test("is refused after a revoke, before and after others take over", async (t) => {
    const later = await t.hold(t.key("later"));
    await t.revoke(later, "atExpiry");
    expect(await t.renew(later)).toEqual(lost("revoked"));
    const now = await t.hold(t.key("now"));
    await t.revoke(now, "now");
    expect(await t.renew(now)).toEqual(lost("revoked"));
    await t.hold(now);
    expect(await t.renew(now)).toEqual(lost("taken"));
  });

  test("is refused after a release, and where nothing was ever granted", async (t) => {
    const held = await t.hold();
    await t.release(held);
    expect(await t.renew(held)).toEqual(lost("gone"));
    expect(await t.renew(t.request(t.key("never")))).toEqual(lost("gone"));
  });

  test("goes by lease id: a stranger's renewal is refused and leaves the grant alone", async (t) => {
    await t.inTime(async (ttlMs) => {
      const held = await t.hold(t.key(`ttl ${ttlMs}`), { ttlMs });
      const stranger = { ...held, leaseId: newLeaseId(systemRandom) };
      const { status } = await t.renew(stranger);
      expect(status).toBe("lost");
      if ((await t.acquire(t.request(held))).status !== "held") return false;
      // Had it extended the grant, the key would not be free now.
      await t.expire(held);
      await t.hold(held);
      return true;
    });
  });

  test("of a repeated acquire shows in what it answers", async (t) => {
    await t.inTime(async (ttlMs) => {
      const held = await t.hold(t.key(`ttl ${ttlMs}`), { ttlMs });
      if ((await t.renew(held)).status !== "renewed") return false;
      const repeated = t.expectAcquired(await t.acquire(held));
      expect(repeated.remainingMs).toBeGreaterThan(held.answer.ttlMs);
      return true;
    });
  });
};
