/** What a grant shows of the one before it on its key: nothing in its own view, and all of it in `replaced`. */
import { only } from "../calls.js";
import { type Held, needsStoreClock, type Section } from "./fixture.js";

type Time = string | null | undefined;

/** A store may decide an acquire that waits in another way. */
const WAITS: readonly object[] = [{}, { queueMs: 60_000 }];

export const successors: Section = (test, expect) => {
  /** A time may be rounded to another millisecond. */
  const expectApart = (from: Time, to: Time, ms: number) => {
    const apartMs = Date.parse(to ?? "") - Date.parse(from ?? "");
    expect(Math.abs(apartMs - ms)).toBeLessThanOrEqual(1);
  };

  test("are shown as never renewed, though the grant before them was", async (t) => {
    let before = await t.hold(t.key(), { metadata: `{"first":"yes"}` });
    // Twice each, because every second acquire asks for what it replaced.
    for (const waits of [...WAITS, ...WAITS].toSorted(byWait)) {
      expect(await t.renew(before)).toMatchObject({ status: "renewed" });
      await t.release(before);
      const held = await t.hold(t.key(), waits);
      expect(await t.view(held)).toMatchObject({
        state: "live",
        holder: held.holder,
        token: held.answer.token,
        renewedAt: null,
        metadata: null,
      });
      const { items } = await t.store.list({ namespace: t.namespace, renewedOnly: true });
      expect(items).toEqual([]);
      before = held;
    }
  });

  test(
    "return the grant that they replace as it was last shown, however it ended",
    async (t) => {
      const ends: Readonly<Record<string, (held: Held) => Promise<unknown>>> = {
        released: (held) => t.release(held),
        "revoked now": (held) => t.revoke(held, "now"),
        "revoked at its expiry": async (held) => {
          await t.revoke(held, "atExpiry");
          await t.expire(held);
        },
        expired: (held) => t.expire(held),
      };
      for (const [how, end] of Object.entries(ends)) {
        for (const waits of WAITS) {
          const key = t.key(`${how} ${JSON.stringify(waits)}`);
          const first = await t.hold(key, { ttlMs: t.shortTtlMs, metadata: `{"how":"${how}"}` });
          await end(first);
          const last = await t.view(first);
          expect(last?.state, how).toBe(how.split(" ")[0]);
          const request = t.request(key, waits);
          const outcome = only(await t.store.acquire([request], { returnReplaced: true }));
          const { replaced } = t.expectAcquired(outcome);
          // A store that is far away says nothing.
          if (replaced) expect(replaced, how).toEqual(last);
        }
      }
    },
    needsStoreClock,
  );

  test("begin when they are made, which no renewal changes", async (t) => {
    const held = await t.hold(t.key(), { ttlMs: Math.ceil(t.longTtlMs / 2_000) * 1_000 });
    const granted = await t.view(held);
    // The clocks of stores show milliseconds.
    await t.pass(2);
    const outcome = await t.renew(held);
    expect(outcome).toMatchObject({ status: "renewed" });
    const renewed = await t.view(held);
    expect(renewed?.grantedAt).toBe(granted?.grantedAt);
    if (renewed?.grantedAt && renewed.renewedAt) {
      expect(Date.parse(renewed.renewedAt)).toBeGreaterThan(Date.parse(renewed.grantedAt));
    }
  });

  test("show when they began and were renewed also after their end, as far as they are kept", async (t) => {
    const ends: Readonly<Record<string, (held: Held) => Promise<unknown>>> = {
      release: (held) => t.release(held),
      "revoke now": (held) => t.revoke(held, "now"),
      "revoke at expiry": (held) => t.revoke(held, "atExpiry"),
    };
    for (const [how, end] of Object.entries(ends)) {
      const held = await t.hold(t.key(how));
      const granted = await t.view(held);
      await t.pass(2);
      await t.renew(held);
      await end(held);
      const ended = await t.view(held);
      // An engine may keep neither, or forget both times.
      if (!ended?.grantedAt) continue;
      expect(ended.grantedAt, how).toBe(granted?.grantedAt);
      const renewedAtMs = Date.parse(ended.renewedAt ?? "");
      expect(renewedAtMs, how).toBeGreaterThan(Date.parse(ended.grantedAt));
    }
  });

  test(
    "end their TTL after their grant, or after the renewal that leaves them most",
    async (t) => {
      const held = await t.hold(t.key(), { ttlMs: Math.ceil(t.longTtlMs / 2_000) * 1_000 });
      const granted = await t.view(held);
      expectApart(granted?.grantedAt, granted?.expiresAt, held.answer.ttlMs);
      expectApart(granted?.expiresAt, held.answer.expiresAt, 0);
      await t.pass(2);
      const outcome = await t.renew(held);
      if (outcome.status !== "renewed") throw new Error("it was renewed");
      const renewed = await t.view(held);
      expect(renewed?.ttlMs).toBe(outcome.ttlMs);
      expectApart(renewed?.renewedAt, renewed?.expiresAt, outcome.ttlMs);
      expectApart(renewed?.expiresAt, outcome.expiresAt, 0);
      await t.pass(10);
      const repeated = t.expectAcquired(await t.acquire(held));
      expectApart(renewed?.expiresAt, repeated.expiresAt, 0);
      // A shorter renewal moves no expiry.
      const shorter = await t.renew(held, t.shortTtlMs);
      if (shorter.status !== "renewed") throw new Error("it was renewed");
      expectApart(renewed?.expiresAt, shorter.expiresAt, 0);
      expectApart(renewed?.expiresAt, (await t.view(held))?.expiresAt, 0);
    },
    needsStoreClock,
  );
};

function byWait(a: object, b: object): number {
  return Object.keys(a).length - Object.keys(b).length;
}
