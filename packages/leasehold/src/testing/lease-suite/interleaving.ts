/**
 * What happens between the moment in which a store reads a record and the one in which it writes what it has decided:
 *
 *   load ──▶ decide ──▶ save
 *        ▲
 *        others act here: time passes, a grant ends, a waiter joins, records are collected
 *
 * A store that decides in one step of its engine has no such moment: then the others act before the call, and the answers
 * are the same.
 */
import { grantIdOf } from "../../env/index.js";
import { type AcquireRequest, RESERVED_MS } from "../../lease/index.js";
import {
  aheadOf,
  every,
  type Held,
  needsCollect,
  needsPush,
  needsQueue,
  needsStoreClock,
  type Section,
} from "./fixture.js";

const LONG_MS = 60_000;

export const interleaving: Section = (test, expect) => {
  test(
    "extends and ends no grant that expires before it saves",
    async (t) => {
      const expiring = async (resource: string, call: (held: Held) => Promise<object>) => {
        const held = await t.hold(t.key(resource), { ttlMs: t.shortTtlMs });
        const outcome = await t.between(
          () => t.expire(held),
          () => call(held),
        );
        expect(await t.view(held)).toMatchObject({ state: "expired" });
        return outcome;
      };
      expect(await expiring("renew", (held) => t.renew(held))).toMatchObject({
        status: "lost",
        reason: "expired",
      });
      for (const end of [t.release.bind(t), (held: Held) => t.revoke(held, "atExpiry")]) {
        expect(await expiring(end.name || "revoke", end)).toMatchObject({ status: "notHeld" });
      }
    },
    needsStoreClock,
  );

  test(
    "makes no grant that is over when it is saved",
    async (t) => {
      const request = t.request(t.key(), { ttlMs: t.shortTtlMs });
      const outcome = await t.between(
        () => t.pass(t.shortTtlMs + t.store.capabilities.epsilonMs),
        () => t.acquire(request),
      );
      expect(t.expectAcquired(outcome).remainingMs).toBeGreaterThan(0);
      expect(await t.view(request)).toMatchObject({ state: "live" });
    },
    needsStoreClock,
  );

  test(
    "gives a larger token than that of a grant that came and was collected",
    async (t) => {
      const request = t.request(t.key());
      let collected = 0;
      const outcome = await t.between(
        async () => {
          const other = await t.hold();
          collected = other.answer.token;
          await t.release(other);
          await t.pass(1);
          await t.store.collect(0);
          expect(await t.view(other)).toBe(null);
        },
        () => t.acquire(request),
      );
      const { token } = t.expectAcquired(outcome);
      if (t.store.capabilities.tokens !== false) expect(token).toBeGreaterThan(collected);
    },
    needsCollect,
  );

  test("grants once, however many ask at the same time", async (t) => {
    const [first, second] = [t.request(t.key()), t.request(t.key())];
    const late = await t.between(
      async () => {
        t.expectAcquired(await t.acquire(first));
      },
      () => t.acquire(second),
    );
    expect(late).toMatchObject({ status: "held", grantId: grantIdOf(first.leaseId) });
  });

  test(
    "renews, however many waiters join meanwhile",
    async (t) => {
      const held = await t.hold();
      const join = async () => {
        await t.acquire(t.request(t.key(), { queueMs: LONG_MS }));
      };
      const outcome = await t.between(join, () => t.renew(held), { always: true });
      expect(outcome).toMatchObject({ status: "renewed" });
    },
    needsQueue,
  );

  test(
    "leaves no waiter behind that joins when the lease has just been released",
    async (t) => {
      const watching = t.store.capabilities.watch === "push" ? await t.watch() : undefined;
      const held = await t.hold();
      const request = t.request(t.key(), { queueMs: LONG_MS });
      const outcome = await t.between(
        async () => {
          await t.release(held);
        },
        () => t.acquire(request),
      );
      if (outcome.status !== "acquired") {
        const woken = grantIdOf(request.leaseId);
        await t.until("it is woken", () => {
          return watching?.changed.some(({ wakes }) => wakes === woken) ?? true;
        });
        t.expectAcquired(await t.acquire(request));
      }
      await watching?.stop();
    },
    needsQueue,
  );

  test(
    "wakes the third waiter when the first two give up at the same time",
    async (t) => {
      const watching = await t.watch();
      const held = await t.hold();
      const waiters = Array.from({ length: 3 }, () => t.request(t.key(), { queueMs: LONG_MS }));
      const [first, second, third] = waiters as [AcquireRequest, AcquireRequest, AcquireRequest];
      for (const waiter of waiters) await t.acquire(waiter);
      await t.release(held);
      await t.between(
        async () => {
          await t.release(first);
        },
        () => t.release(second),
      );
      const woken = grantIdOf(third.leaseId);
      await t.until("it is woken", () => watching.changed.some(({ wakes }) => wakes === woken));
      t.expectAcquired(await t.acquire(third));
      await watching.stop();
    },
    every(needsQueue, needsPush),
  );

  test(
    "puts a waiter that has expired behind the others",
    async (t) => {
      await t.hold();
      const wait = (queueMs: number) => t.request(t.key(), { queueMs });
      const [brief, stays] = [wait(100), wait(LONG_MS)];
      await t.acquireAll([brief, stays]);
      await t.pass(100);
      await t.until("the other one is the first", async () => {
        return aheadOf(await t.acquire(stays)) === 0;
      });
      const again = { ...brief, queueMs: LONG_MS };
      const ahead = [];
      for (const request of [again, again, stays]) ahead.push(aheadOf(await t.acquire(request)));
      expect(ahead).toEqual([1, 1, 0]);
    },
    needsQueue,
  );

  test(
    "lets a waiter that was passed over wait again, in the same batch",
    async (t) => {
      const held = await t.hold();
      const waiters = Array.from({ length: 3 }, () => t.request(t.key(), { queueMs: LONG_MS }));
      const [passed, next, last] = waiters as [AcquireRequest, AcquireRequest, AcquireRequest];
      await t.acquireAll(waiters);
      await t.release(held);
      await t.pass(RESERVED_MS);
      const outcomes = await t.acquireAll([next, passed]);
      expect(outcomes).toMatchObject([{ status: "acquired" }, { status: "held" }]);
      const newcomer = t.request(t.key(), { queueMs: LONG_MS });
      const ahead = [];
      for (const request of [newcomer, last, passed]) {
        ahead.push(aheadOf(await t.acquire(request)));
      }
      expect(ahead).toEqual([2, 0, 1]);
    },
    every(needsQueue, needsStoreClock),
  );
};
