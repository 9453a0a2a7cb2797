/** The wait queue, by lease/queue.ts. */

import { grantIdOf, systemClock } from "../../env/index.js";
import { type AcquireRequest, RESERVED_MS } from "../../lease/index.js";
import type { Expect } from "../framework.js";
import {
  aheadOf,
  every,
  type Fixture,
  type Held,
  needsCollect,
  needsPush,
  needsQueue,
  needsStoreClock,
  type Section,
} from "./fixture.js";

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
        const outcomes = [...early, alone];
        // On a slower machine the reservation may have passed, and another waiter may have the key.
        const wasSlow = systemClock.monotonic() - sinceMs >= SOON_MS;
        if (wasSlow && outcomes.some(isAcquired)) return;
        for (const outcome of outcomes) expect(outcome).toMatchObject({ status: "held" });
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
    "keeps the waiters of one resource apart from those of other namespaces and names",
    async (t) => {
      const other = `${t.namespace}-other`;
      const keys = [
        { namespace: other, resource: "a" },
        ...["a", "a/b", "ab", "a b", "a%2Fb"].map((name) => t.key(name)),
      ];
      const owners: Held[] = [];
      const lines: [AcquireRequest, AcquireRequest][] = [];
      for (const key of keys) {
        owners.push(await t.hold(key));
        const line = [t.request(key, { queueMs: LONG_MS }), t.request(key, { queueMs: LONG_MS })];
        lines.push(line as [AcquireRequest, AcquireRequest]);
        await expectAhead(t, expect, line, [0, 1]);
      }
      const watching = t.store.capabilities.watch === "push" ? await t.watch() : undefined;
      // The first queue waits on.
      for (const [at, [first, second]] of lines.entries()) {
        const owner = owners[at];
        if (at === 0 || !owner) continue;
        await t.release(owner);
        const woken = grantIdOf(first.leaseId);
        await t.until("its head is woken", () => {
          return watching?.changed.some(({ wakes }) => wakes === woken) ?? true;
        });
        t.expectAcquired(await t.acquire(first));
        await expectAhead(t, expect, [second], [0]);
        for (const [, behind] of [...lines.slice(0, 1), ...lines.slice(at + 1)]) {
          await expectAhead(t, expect, [behind], [1]);
        }
      }
      const names = watching?.changed.map(({ namespace }) => namespace) ?? [];
      expect(names.filter((name) => name !== t.namespace)).toEqual([]);
      await watching?.stop();
    },
    needsQueue,
  );

  test(
    "outlasts the collection of ended grants",
    async (t) => {
      await t.hold();
      const waiters = waitersOf(t, 3);
      await expectAhead(t, expect, waiters, [0, 1, 2]);
      await t.release(await t.hold(t.key("ended")));
      await t.store.collect(0);
      await expectAhead(t, expect, waiters.toReversed(), [2, 1, 0]);
    },
    every(needsQueue, needsCollect),
  );

  test(
    "tells a waiter when to attempt: after the grant, and the reservations of those ahead",
    async (t) => {
      const held = await t.hold();
      const requests = [...waitersOf(t, 3), t.request(t.key())];
      for (const [at, request] of requests.entries()) {
        const outcome = await t.acquire(request);
        if (outcome.status !== "held") throw new Error("it is held");
        // The last one does not wait.
        const reservedMs = request.queueMs ? at * RESERVED_MS : 0;
        const leftMs = (outcome.remainingMs ?? 0) - reservedMs;
        const passedMs = t.opened.advance ? 0 : systemClock.monotonic() - held.sentMs;
        expect(leftMs).toBeLessThanOrEqual(held.answer.ttlMs);
        // Two clocks: the store's may run faster than ours by a percent.
        expect(leftMs).toBeGreaterThanOrEqual(held.answer.ttlMs - passedMs * 1.01 - 1);
      }
    },
    every(needsQueue, needsStoreClock),
  );

  test(
    "wakes no one when a waiter gives up while the resource is held",
    async (t) => {
      const watching = await t.watch();
      await t.hold();
      const [first, second] = waitersOf(t, 2) as [AcquireRequest, AcquireRequest];
      await expectAhead(t, expect, [first, second], [0, 1]);
      const elsewhere = await t.hold(t.key("elsewhere"));
      const last = t.request(elsewhere, { queueMs: LONG_MS });
      await expectAhead(t, expect, [last], [0]);
      await t.release(first);
      await t.release(elsewhere);
      // What the first release had to say came before this.
      const woken = () => watching.changed.map(({ wakes }) => wakes);
      await t.until("a later notification", () => woken().includes(grantIdOf(last.leaseId)));
      expect(woken()).not.toContain(grantIdOf(second.leaseId));
      await watching.stop();
    },
    every(needsQueue, needsPush),
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

function isAcquired({ status }: { readonly status: string }): boolean {
  return status === "acquired";
}
