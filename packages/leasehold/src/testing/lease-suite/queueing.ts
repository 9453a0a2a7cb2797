/** The wait queue, by core/queue.ts. */

import { type AcquireRequest, RESERVED_MS } from "../../core/index.js";
import { grantIdOf, systemClock } from "../../env/index.js";
import type { Expect } from "../framework.js";
import { every, type Fixture, type Need, needsQueue, type Section } from "./fixture.js";

const needsPush: Need = ({ store }) =>
  store.capabilities.watch === "push" ? null : "it declares watch: poll";

const LONG_MS = 60_000;
/** Attempts within this part of the reservation for the head of the queue certainly come in time. */
const SOON_MS = RESERVED_MS / 2;

export const queueing: Section = (test, expect) => {
  test(
    "serves waiters in the order of their arrival",
    async (t) => {
      let held = await t.hold();
      // With six waiters, their random names are hardly in the order of arrival by chance.
      const waiters = waitersOf(t, 6);
      await expectAhead(t, expect, waiters, [...waiters.keys()]);
      for (const [served, next] of waiters.entries()) {
        await t.release(held);
        const sinceMs = systemClock.monotonic();
        // Waiters further back are refused although the key is free.
        const others = waiters.slice(served + 1).reverse();
        const early = await t.acquireAll([...others, t.request(t.key())]);
        // A store may decide a request that comes by itself in another way.
        const newcomer = t.request(t.key());
        const alone = await t.acquire(newcomer);
        // On a slower machine the reservation may have passed, and either outcome is right.
        if (systemClock.monotonic() - sinceMs < SOON_MS) {
          for (const outcome of [...early, alone])
            expect(outcome).toMatchObject({ status: "held" });
        }
        held = { ...next, answer: t.expectAcquired(await t.acquire(next)), sentMs: 0 };
      }
    },
    needsQueue,
  );

  test(
    "returns how many waiters are ahead, and keeps the position of a waiter that polls",
    async (t) => {
      await t.hold();
      const waiters = waitersOf(t, 3);
      await expectAhead(t, expect, waiters, [0, 1, 2]);
      await expectAhead(t, expect, waiters.toReversed(), [2, 1, 0]);
      // One batch has the same request twice.
      const [first, second] = waiters as [AcquireRequest, AcquireRequest];
      const both = await t.acquireAll([second, first, second]);
      expect(both.map(aheadOf)).toEqual([1, 0, 1]);
    },
    needsQueue,
  );

  test(
    "passes over waiters that do not respond, and serves the next",
    async (t) => {
      const held = await t.hold();
      const waiters = waitersOf(t, 3);
      await expectAhead(t, expect, waiters, [0, 1, 2]);
      await t.release(held);
      await t.pass(RESERVED_MS);
      const [dead, next, last] = waiters as [AcquireRequest, AcquireRequest, AcquireRequest];
      await t.until("the next waiter has it", async () => isAcquired(await t.acquire(next)));
      // The dead waiter was passed over, and delays the others no more.
      await expectAhead(t, expect, [last, dead], [0, 1]);
    },
    needsQueue,
  );

  test(
    "grants to any contender when no waiter claims the resource",
    async (t) => {
      const held = await t.hold();
      await expectAhead(t, expect, waitersOf(t, 2), [0, 1]);
      await t.release(held);
      await t.pass(2 * RESERVED_MS);
      const anybody = t.request(t.key());
      await t.until("it is free for all", async () => isAcquired(await t.acquire(anybody)));
    },
    needsQueue,
  );

  test(
    "drops the position of a waiter that stops polling or releases",
    async (t) => {
      await t.hold();
      const [brief, gone, stays] = [t.request(t.key(), { queueMs: 100 }), ...waitersOf(t, 2)] as [
        AcquireRequest,
        AcquireRequest,
        AcquireRequest,
      ];
      await t.acquireAll([brief, gone, stays]);
      expect((await t.release(gone)).status).toBe("notHeld");
      await t.pass(100);
      await t.until("it is the first", async () => aheadOf(await t.acquire(stays)) === 0);
    },
    needsQueue,
  );

  test(
    "keeps the position of a waiter that attempts again, for as long as its last attempt says",
    async (t) => {
      await t.hold();
      const brief = t.request(t.key(), { queueMs: 300 });
      const [late] = waitersOf(t, 1) as [AcquireRequest];
      expect(aheadOf(await t.acquire(brief))).toBe(0);
      await t.acquire({ ...brief, queueMs: LONG_MS });
      await t.pass(600);
      expect(aheadOf(await t.acquire(late))).toBe(1);
    },
    needsQueue,
  );

  test(
    "serves the next waiter when the head of the queue releases",
    async (t) => {
      const held = await t.hold();
      const [first, second] = waitersOf(t, 2) as [AcquireRequest, AcquireRequest];
      await expectAhead(t, expect, [first, second], [0, 1]);
      await t.release(held);
      await t.release(first);
      await t.until("the next one has it", async () => isAcquired(await t.acquire(second)));
    },
    needsQueue,
  );

  test(
    "wakes only the head of the queue",
    async (t) => {
      const watching = await t.watch();
      const held = await t.hold();
      const waiters = waitersOf(t, 3);
      await expectAhead(t, expect, waiters, [0, 1, 2]);
      await t.release(held);
      await t.until("a notification", () => watching.changed.length > 0);
      const first = grantIdOf(waiters[0]?.leaseId ?? "");
      expect(watching.changed.map(({ wakes }) => wakes)).toEqual([first]);
      await watching.stop();
    },
    every(needsQueue, needsPush),
  );

  test(
    "wakes the second waiter when the holder and the first one release in one call",
    async (t) => {
      const watching = await t.watch();
      const held = await t.hold();
      const [first, second] = waitersOf(t, 2) as [AcquireRequest, AcquireRequest];
      await expectAhead(t, expect, [first, second], [0, 1]);
      const statuses = (await t.releaseAll([held, first])).map(({ status }) => status);
      expect(statuses).toEqual(["released", "notHeld"]);
      const woken = grantIdOf(second.leaseId);
      await t.until("it is woken", () => watching.changed.some(({ wakes }) => wakes === woken));
      await watching.stop();
    },
    every(needsQueue, needsPush),
  );
};

function waitersOf(t: Fixture, count: number): AcquireRequest[] {
  return Array.from({ length: count }, () => t.request(t.key(), { queueMs: LONG_MS }));
}

async function expectAhead(
  t: Fixture,
  expect: Expect,
  waiters: readonly AcquireRequest[],
  ahead: readonly number[],
): Promise<void> {
  const seen: unknown[] = [];
  for (const waiter of waiters) seen.push(aheadOf(await t.acquire(waiter)));
  expect(seen).toEqual(ahead);
}

function aheadOf(outcome: Awaited<ReturnType<Fixture["acquire"]>>): number | undefined {
  return outcome.status === "held" ? outcome.ahead : undefined;
}

function isAcquired({ status }: { readonly status: string }): boolean {
  return status === "acquired";
}
