import { describe, expect, it } from "vitest";
import { manualClock } from "../testing/index.js";
import { RenewalScheduler, TOGETHER_MS } from "./renewal-scheduler.js";

describe("RenewalScheduler", () => {
  it("wakes each at its time with one timer, and holds none when nothing is scheduled", async () => {
    const clock = manualClock();
    const scheduler = new RenewalScheduler(clock);
    const woken: string[] = [];
    const scheduled = (name: string) => ({
      wake: () => woken.push(`${name}@${clock.monotonic()}`),
    });
    const b = scheduled("b");
    scheduler.schedule(scheduled("c"), 300);
    scheduler.schedule(scheduled("a"), 100);
    scheduler.schedule(b, 200);
    expect(clock.pendingTimers).toBe(1);
    await clock.advance(145);
    scheduler.remove(b);
    await clock.advance(1_000);
    expect(woken).toEqual(["a@100", "c@300"]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("holds no timer for a lease that is never to be woken", async () => {
    const clock = manualClock();
    const scheduler = new RenewalScheduler(clock);
    const scheduled = { wake: () => expect.unreachable() };
    scheduler.schedule(scheduled, 100);
    scheduler.schedule(scheduled, Number.POSITIVE_INFINITY);
    expect(clock.pendingTimers).toBe(0);
    await clock.advance(1_000);
  });

  it("wakes leases that are due soon with those that are due now", async () => {
    const clock = manualClock();
    const scheduler = new RenewalScheduler(clock);
    const woken: string[] = [];
    const at = (atMs: number) =>
      scheduler.schedule({ wake: () => woken.push(`${atMs}@${clock.monotonic()}`) }, atMs);
    for (const atMs of [100, 100 + TOGETHER_MS, 101 + TOGETHER_MS]) at(atMs);
    await clock.advance(1_000);
    expect(woken).toEqual(["100@100", "150@100", "151@151"]);
  });

  it("wakes no lease before its time when it only compares the clocks", async () => {
    const clock = manualClock();
    const scheduler = new RenewalScheduler(clock);
    const woken: number[] = [];
    scheduler.schedule({ wake: () => woken.push(clock.monotonic()) }, 1_000 + TOGETHER_MS);
    await clock.advance(1_000);
    expect(woken).toEqual([]);
    await clock.advance(1_000);
    expect(woken).toEqual([1_000 + TOGETHER_MS]);
  });

  it("follows the latest schedule, also over many reschedulings", async () => {
    const clock = manualClock();
    const scheduler = new RenewalScheduler(clock);
    let wakes = 0;
    const scheduled = { wake: () => void wakes++ };
    for (let round = 0; round < 10_000; round += 1) scheduler.schedule(scheduled, 50 + (round % 7));
    await clock.advance(49);
    expect(wakes).toBe(0);
    await clock.advance(100);
    expect(wakes).toBe(1);
  });

  it("lets a woken one schedule itself anew", async () => {
    const clock = manualClock();
    const scheduler = new RenewalScheduler(clock);
    const times: number[] = [];
    const scheduled = {
      wake() {
        times.push(clock.monotonic());
        if (times.length < 3) scheduler.schedule(scheduled, clock.monotonic() + 10);
      },
    };
    scheduler.schedule(scheduled, 10);
    await clock.advance(100);
    expect(times).toEqual([10, 20, 30]);
  });

  it("wakes leases in the order in which they are due after a suspend, and no removed one", async () => {
    const clock = manualClock();
    const scheduler = new RenewalScheduler(clock);
    const woken: number[] = [];
    const scheduled = [60_000, 90_000, 80_000, 100_000].map((atMs) => {
      const lease = { wake: () => woken.push(atMs) };
      scheduler.schedule(lease, atMs);
      return lease;
    });
    scheduler.remove(scheduled[3]!);
    clock.jumpWall(3_600_000);
    await clock.advance(1_000);
    expect(woken).toEqual([60_000, 80_000, 90_000]);
  });

  it("wakes all leases once after each suspend, and none early after that", async () => {
    const clock = manualClock();
    const scheduler = new RenewalScheduler(clock);
    let wakes = 0;
    const scheduled = {
      wake() {
        wakes += 1;
        scheduler.schedule(scheduled, clock.monotonic() + 60_000);
      },
    };
    scheduler.schedule(scheduled, 60_000);
    for (let suspends = 1; suspends <= 3; suspends += 1) {
      clock.jumpWall(3_600_000);
      await clock.advance(10_000);
      expect(wakes).toBe(suspends);
    }
    scheduler.remove(scheduled);
    expect(clock.pendingTimers).toBe(0);
  });
});
