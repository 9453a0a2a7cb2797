/** The state that a first time leaves behind: the second and the hundredth time must be like the first. */
import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import { LEASE_TTL_MS, leasesWorld } from "../../../../tests/support/worlds/leases-world.js";
import { manualClock, manualEnv } from "../testing/index.js";
import { Batcher } from "./batching.js";
import { RenewalScheduler } from "./renewal-scheduler.js";

/** Leases that the scheduler wakes at an interval each, and the times at which it did. */
function scheduled(count: number, intervalOf: (index: number) => number) {
  const clock = manualClock();
  const scheduler = new RenewalScheduler(clock);
  const leases = Array.from({ length: count }, (_, index) => {
    const wakes: number[] = [];
    const lease = {
      index,
      wakes,
      wake() {
        wakes.push(clock.monotonic());
        scheduler.schedule(lease, clock.monotonic() + intervalOf(index));
      },
    };
    scheduler.schedule(lease, intervalOf(index));
    return lease;
  });
  return { clock, scheduler, leases };
}

it("a scheduler wakes one lease for as long as it lives after all others were removed, twice", async () => {
  const { clock, scheduler, leases } = scheduled(5_000, () => 1_000);
  const [last, ...others] = leases;
  for (let round = 0; round < 2; round += 1) {
    for (const other of others) scheduler.remove(other);
    const before = last!.wakes.length;
    await clock.advance(20_000);
    expect(last!.wakes.length - before).toBe(20);
    expect(clock.pendingTimers).toBe(1);
    for (const other of others) scheduler.schedule(other, clock.monotonic() + 1_000);
  }
  for (const lease of leases) scheduler.remove(lease);
  expect(clock.pendingTimers).toBe(0);
  // From nothing, it begins again.
  scheduler.schedule(last!, clock.monotonic() + 1_000);
  const before = last!.wakes.length;
  await clock.advance(3_000);
  expect(last!.wakes.length - before).toBe(3);
});

it("a scheduler wakes every lease in time after each rebuild of its heap", async () => {
  const intervalOf = (index: number) => 1_000 + 100 * (index % 7);
  const { clock, scheduler, leases } = scheduled(300, intervalOf);
  for (let round = 0; round < 5; round += 1) {
    // A thousand stale entries, which cause a rebuild.
    for (const lease of [...leases, ...leases, ...leases, ...leases, ...leases]) {
      scheduler.schedule(lease, clock.monotonic() + intervalOf(lease.index));
    }
    const sinceMs = clock.monotonic();
    const before = leases.map(({ wakes }) => wakes.length);
    await clock.advance(20_000);
    for (const { index, wakes } of leases) {
      const times = wakes.slice(before[index]);
      let lastMs = sinceMs;
      for (const atMs of times) {
        expect(atMs - lastMs).toBeGreaterThan(intervalOf(index) - 100);
        expect(atMs - lastMs).toBeLessThanOrEqual(intervalOf(index));
        lastMs = atMs;
      }
      expect(clock.monotonic() - lastMs).toBeLessThanOrEqual(intervalOf(index));
    }
  }
});

it("a scheduler wakes each of three leases once, after any number of reschedulings", async () => {
  // At some of these numbers the last rescheduling is the one that rebuilds the heap.
  for (let count = 900; count < 2_200; count += 1) {
    const clock = manualClock();
    const scheduler = new RenewalScheduler(clock);
    const woken = [0, 0, 0];
    const leases = woken.map((_, index) => ({ wake: () => (woken[index]! += 1) }));
    for (const lease of leases) scheduler.schedule(lease, 500);
    for (let again = 0; again < count; again += 1) {
      scheduler.schedule(leases[again % 3]!, 400 + (again % 100));
    }
    await clock.advance(600);
    expect(woken, `after ${count} reschedulings`).toEqual([1, 1, 1]);
    expect(clock.pendingTimers).toBe(0);
  }
});

it("a lease is renewed in time after a mass release, again and again", async () => {
  const { a, clock, store } = leasesWorld();
  const kept = await a.acquire("kept");
  for (let round = 0; round < 3; round += 1) {
    const names = Array.from({ length: 1_500 }, (_, index) => `lease ${index}`);
    const leases = await Promise.all(names.map((name) => a.acquire(name)));
    await clock.advance(LEASE_TTL_MS);
    await Promise.all(leases.map((lease) => lease.release()));
    const before = store.calls.renew;
    await clock.advance(10 * LEASE_TTL_MS);
    expect(kept.checkAlive()).toBe(true);
    // Every third of the TTL, give or take a tenth.
    expect(store.calls.renew - before).toBeGreaterThanOrEqual(26);
    expect(store.calls.renew - before).toBeLessThanOrEqual(34);
  }
  await kept.release();
  expect(clock.pendingTimers).toBe(0);
});

it("a lane sends what comes after any number of overdue batches, two calls at a time", async () => {
  const { clock } = manualEnv();
  const calls: { requests: string[]; answer: () => void }[] = [];
  const lane = new Batcher<string, string>(
    (requests) =>
      new Promise((resolve) => {
        calls.push({ requests, answer: () => resolve(requests.map((each) => `${each}!`)) });
      }),
    clock,
  );
  for (let round = 0; round < 3; round += 1) {
    calls.length = 0;
    const flying = ["a", "b"].map(async (name) => {
      await clock.settle();
      return lane.submit(name, 60_000);
    });
    await clock.settle();
    const [first] = [lane.submit("first", 60_000)];
    await clock.settle();
    const hasty = Array.from({ length: 2_500 }, (_, index) => lane.submit(`hasty ${index}`, 1_000));
    await clock.advance(1_000);
    for (const { answer } of calls) answer();
    const outcomes = await Promise.all(hasty);
    expect(outcomes.every((one) => typeof one === "object" && one.applied === "no")).toBe(true);
    await clock.settle();
    for (const { answer } of calls) answer();
    await Promise.all([...flying, first]);

    // Both ways to the store are open again.
    calls.length = 0;
    const next = [lane.submit("c", 60_000)];
    await clock.settle();
    next.push(lane.submit("d", 60_000));
    await clock.settle();
    next.push(lane.submit("e", 60_000));
    await clock.settle();
    expect(calls.map(({ requests }) => requests)).toEqual([["c"], ["d"]]);
    calls[0]!.answer();
    await clock.settle();
    calls[2]!.answer();
    calls[1]!.answer();
    expect(await Promise.all(next)).toEqual(["c!", "d!", "e!"]);
  }
  expect(clock.pendingTimers).toBe(0);
});

it("a waiter is woken without a poll though the watch has broken three times", async () => {
  const { a, b, clock, store } = leasesWorld();
  const watch = store.watch.bind(store);
  let watches = 0;
  let cut = () => {};
  // The first throws at once; each later one works until it is cut.
  store.watch = async function* (namespace, options) {
    watches += 1;
    if (watches === 1) throw new Error("broken");
    const broken = new Promise<never>((_, reject) => {
      cut = () => reject(new Error("broken"));
    });
    broken.catch(() => {});
    const events = watch(namespace, options)[Symbol.asyncIterator]();
    for (;;) {
      const next = await Promise.race([events.next(), broken]);
      if (next.done) return;
      yield next.value;
    }
  };
  const stays = a.acquire("stays");
  const other = await b.acquire("other");
  const waitsOn = a.acquire("other");
  await stays;
  for (let round = 0; round < 3; round += 1) {
    const held = await b.acquire("r");
    const waiting = a.acquire("r");
    await clock.advance(5_000);
    expect(watches).toBe(round + 2);
    await held.release();
    await clock.settle();
    const got = await waiting;
    expect(got.checkAlive()).toBe(true);
    await got.release();
    cut();
    await clock.advance(5_000);
  }
  await other.release();
  await clock.settle();
  await (await waitsOn).release();
  await (await stays).release();
  expect(clock.pendingTimers).toBe(0);
});

it("a signal that a thousand calls share is left as it was, also by those that failed", async () => {
  const { a, b, clock, store } = leasesWorld();
  const { signal } = new AbortController();
  const held = await b.acquire("held");
  for (let round = 0; round < 20; round += 1) {
    store.faults.acquire = round % 3 === 0 ? "cut" : "ok";
    const calls = [
      a.run(`r ${round}`, { signal }, () => round),
      a.run("held", { signal, waitMs: 100 }, () => round).catch(() => null),
      a.acquire("shared", { signal }).then((lease) => lease.release()),
      a.acquire("shared", { signal }).then((lease) => lease.release()),
    ];
    await clock.advance(50);
    store.faults.acquire = "ok";
    await clock.advance(10_000);
    await Promise.all(calls);
    expect(getEventListeners(signal, "abort")).toEqual([]);
    expect(getEventListeners(a.closing, "abort")).toEqual([]);
  }
  await held.release();
  expect(clock.pendingTimers).toBe(0);
});
