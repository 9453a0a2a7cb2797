import { grantIdOf, systemClock } from "../../env/index.js";
import { needsStoreClock, type Section } from "./fixture.js";

export const revoking: Section = (test, expect) => {
  test("finds nothing to revoke on a free key", async (t) => {
    expect(await t.revoke(t.key(), "now")).toEqual({ status: "notHeld" });
    const held = await t.hold();
    await t.release(held);
    expect(await t.revoke(held, "now")).toEqual({ status: "notHeld" });
    expect(await t.revoke(held, "atExpiry", held.answer.token)).toEqual({ status: "notHeld" });
  });

  test(
    "finds nothing after expiry",
    async (t) => {
      const held = await t.hold(t.key(), { ttlMs: t.shortTtlMs });
      await t.expire(held);
      expect(await t.revoke(held, "now")).toEqual({ status: "notHeld" });
    },
    needsStoreClock,
  );

  test("now frees at once", async (t) => {
    const held = await t.hold();
    expect(await t.revoke(held, "now")).toEqual({
      status: "revoked",
      token: held.answer.token,
      freeInMs: 0,
    });
    await t.hold();
  });

  test("at expiry refuses the holder but keeps others out while it may still trust its lease", async (t) => {
    const held = await t.hold();
    const outcome = await t.revoke(held, "atExpiry");
    expect(outcome).toMatchObject({ status: "revoked", token: held.answer.token });
    if (outcome.status !== "revoked") return;
    expect(outcome.freeInMs).toBeGreaterThan(0);
    expect(outcome.freeInMs).toBeLessThanOrEqual(held.answer.ttlMs);
    expect(await t.renew(held)).toEqual({ status: "lost", reason: "revoked" });
    expect(await t.acquire(t.request(t.key()))).toMatchObject({
      status: "held",
      holder: held.holder,
    });
  });

  test("at expiry frees no earlier than the old expiry, and then does", async (t) => {
    await t.inTime(async (ttlMs) => {
      const key = t.key(`ttl ${ttlMs}`);
      const held = await t.hold(key, { ttlMs });
      if ((await t.revoke(held, "atExpiry")).status !== "revoked") return false;
      if (t.opened.advance) {
        await t.opened.advance(held.answer.ttlMs - 1);
        expect(await t.acquire(t.request(key))).toMatchObject({ status: "held" });
        await t.opened.advance(1 + t.store.capabilities.epsilonMs);
        await t.hold(key);
        return true;
      }
      const next = t.request(key);
      await t.until("the key is granted anew", async () => {
        const { status } = await t.acquire(next);
        return status === "acquired";
      });
      const apartMs = systemClock.monotonic() - held.sentMs;
      expect(apartMs).toBeGreaterThanOrEqual(held.answer.ttlMs * 0.99);
      return true;
    });
  });

  test("at expiry is what a grant has ended by, also when it would have expired", async (t) => {
    await t.inTime(async (ttlMs) => {
      const held = await t.hold(t.key(`ended after ${ttlMs}`), { ttlMs });
      if ((await t.revoke(held, "atExpiry")).status !== "revoked") return false;
      await t.expire(held);
      const view = await t.view(held);
      // Where the engine keeps the last grant.
      if (view) expect([view.grantId, view.state]).toEqual([grantIdOf(held.leaseId), "revoked"]);
      return true;
    });
  });

  test("may be repeated while it blocks, and hastened", async (t) => {
    const held = await t.hold();
    const { token } = held.answer;
    for (let round = 0; round < 2; round++) {
      expect(await t.revoke(held, "atExpiry")).toMatchObject({ status: "revoked", token });
    }
    expect(await t.revoke(held, "now")).toEqual({ status: "revoked", token, freeInMs: 0 });
    expect(await t.revoke(held, "now")).toEqual({ status: "notHeld" });
    await t.hold();
  });

  test("at expiry is not put off by repetitions", async (t) => {
    const key = t.key();
    const held = await t.hold(key, { ttlMs: t.shortTtlMs });
    const next = t.request(key);
    await t.until("the key is granted anew", async () => {
      await t.revoke(held, "atExpiry", held.answer.token);
      if ((await t.acquire(next)).status === "acquired") return true;
      await t.opened.advance?.(held.answer.ttlMs / 4);
      return false;
    });
  });

  test("spares a grant with another token than expected", async (t) => {
    const first = await t.hold();
    await t.release(first);
    const second = await t.hold();
    for (const free of ["now", "atExpiry"] as const) {
      expect(await t.revoke(second, free, first.answer.token)).toEqual({ status: "otherToken" });
      expect(await t.revoke(second, free, second.answer.token + 1)).toEqual({
        status: "otherToken",
      });
    }
    expect(await t.renew(second)).toMatchObject({ status: "renewed" });
    expect(await t.revoke(second, "now", second.answer.token)).toMatchObject({
      status: "revoked",
      token: second.answer.token,
    });
  });
};
