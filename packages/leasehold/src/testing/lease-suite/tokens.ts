import type { Key } from "../../lease/index.js";
import {
  every,
  type Fixture,
  type Held,
  needsCollect,
  needsRestart,
  needsStoreClock,
  type Section,
} from "./fixture.js";

export const tokens: Section = (test, expect) => {
  const follows = async (t: Fixture, held: Held): Promise<Held> => {
    const next = await t.hold(held);
    expect(next.answer.token).toBeGreaterThan(held.answer.token);
    return next;
  };

  test("grow over releases, also for the same holder", async (t) => {
    let held = await t.hold();
    for (let round = 0; round < 20; round++) {
      await t.release(held);
      const next = await t.hold(t.key(), { holder: held.holder });
      expect(next.answer.token).toBeGreaterThan(held.answer.token);
      held = next;
    }
  });

  test("grow over an expiry", async (t) => {
    const held = await t.hold(t.key(), { ttlMs: t.shortTtlMs });
    await t.expire(held);
    await follows(t, held);
  });

  test("grow over a revoke that frees now", async (t) => {
    const held = await t.hold();
    await t.revoke(held, "now");
    await follows(t, held);
  });

  test("grow over a revoke that frees at expiry", async (t) => {
    const held = await t.hold(t.key(), { ttlMs: t.shortTtlMs });
    await t.revoke(held, "atExpiry");
    await t.expire(held);
    await follows(t, held);
  });

  test("grow over an early release of what was revoked", async (t) => {
    const held = await t.hold();
    await t.revoke(held, "atExpiry");
    await t.release(held);
    await follows(t, held);
  });

  test("stay the same over renewals", async (t) => {
    const held = await t.hold();
    await t.renew(held);
    expect(t.expectAcquired(await t.acquire(held)).token).toBe(held.answer.token);
  });

  test(
    "grow over the collection of ended records",
    async (t) => {
      let released = await t.hold(t.key("released"));
      await t.release(released);
      for (let round = 0; round < 5; round++) {
        released = await follows(t, released);
        await t.release(released);
      }
      const revoked = await t.hold(t.key("revoked"));
      await t.revoke(revoked, "now");
      const expired = await t.hold(t.key("expired"), { ttlMs: t.shortTtlMs });
      await t.expire(expired);
      for (const held of [released, revoked, expired]) {
        await collected(t, held);
        expect(await t.renew(held)).toEqual({ status: "lost", reason: "gone" });
        expect(await t.release(held)).toEqual({ status: "notHeld" });
        await follows(t, held);
      }
    },
    needsCollect,
  );

  test(
    "are not disturbed by collection: what still excludes others is kept",
    async (t) => {
      const live = await t.hold(t.key("live"));
      const blocked = await t.hold(t.key("blocked"));
      await t.revoke(blocked, "atExpiry");
      const ended = await t.hold(t.key("ended"));
      await t.release(ended);
      await collected(t, ended);
      expect(await t.renew(live)).toMatchObject({ status: "renewed" });
      expect(await t.acquire(t.request(t.key("blocked")))).toMatchObject({ status: "held" });
    },
    needsCollect,
  );

  test(
    "leave young ended records to repeated requests",
    async (t) => {
      const held = await t.hold();
      await t.release(held);
      // No more than every client's collector deletes: others may use the store.
      await t.store.collect(7 * 24 * 60 * 60_000);
      expect(await t.acquire(held)).toEqual({ status: "ended" });
    },
    needsStoreClock,
  );

  test("leave young ended records in views, as far as they are kept", async (t) => {
    const held = await t.hold();
    await t.release(held);
    const before = await t.view(held);
    // As above.
    await t.store.collect(7 * 24 * 60 * 60_000);
    expect(await t.view(held)).toEqual(before);
  });

  test(
    "grow over a restart, which live grants survive",
    async (t) => {
      const live = await t.hold(t.key("live"));
      const ended = await t.hold(t.key("ended"));
      await t.release(ended);
      await t.restart();
      if (t.store.capabilities.grants === "portable") {
        expect(await t.acquire(t.request(t.key("live")))).toMatchObject({ status: "held" });
        expect(await t.renew(live)).toMatchObject({ status: "renewed" });
      }
      await follows(t, ended);
      const gone = await t.hold(t.key("collected"));
      await t.release(gone);
      await collected(t, gone);
      await t.restart();
      await follows(t, gone);
    },
    every(needsRestart, needsCollect),
  );
};

/** The record of a key that is free has been deleted. */
async function collected(t: Fixture, key: Key): Promise<void> {
  await t.until("an ended record is collected", async () => {
    // It must have ended before now, and a clock may be as coarse as this.
    await t.pass(1);
    await t.store.collect(0);
    return (await t.view(key)) === null;
  });
}
