/** What may be taken of a bucket, on a manual clock. */
import { manualClock } from "leasehold/testing";
import { expect, it } from "vitest";
import { Bucket, Buckets } from "./buckets.js";

it("allows a burst of one second's worth, then the rate", async () => {
  const clock = manualClock();
  const buckets = new Buckets(clock);
  const taken = (who: string) => {
    let count = 0;
    while (buckets.take(who, { perSecond: 10 }) === 0) count += 1;
    return count;
  };
  expect(taken("a")).toBe(10);
  expect(taken("b")).toBe(10);
  expect(buckets.take("a", { perSecond: 10 })).toBe(100);
  await clock.advance(250);
  expect(taken("a")).toBe(2);
  await clock.advance(60_000);
  expect(taken("a")).toBe(10);
  expect(taken("a")).toBe(0);
});

it("allows one request every two seconds if that is the rate", async () => {
  const clock = manualClock();
  const buckets = new Buckets(clock);
  expect(buckets.take("a", { perSecond: 0.5 })).toBe(0);
  expect(buckets.take("a", { perSecond: 0.5 })).toBe(2_000);
  await clock.advance(2_000);
  expect(buckets.take("a", { perSecond: 0.5 })).toBe(0);
});

it.each([0.1, 0.3, 0.5, 1, 2.5])(
  "allows %s requests a second in the long run too, to a client that waits as long as asked",
  async (perSecond) => {
    const clock = manualClock();
    const buckets = new Buckets(clock);
    let taken = 0;
    while (clock.monotonic() < 1_000_000) {
      const waitMs = buckets.take("patient", { perSecond });
      if (waitMs === 0) taken += 1;
      await clock.advance(waitMs);
    }
    const burst = Math.max(1, perSecond);
    expect(taken).toBeGreaterThanOrEqual(1_000 * perSecond - 2);
    expect(taken).toBeLessThanOrEqual(1_000 * perSecond + burst);
  },
);

it("remembers a slow client for as long as it must wait", async () => {
  const clock = manualClock();
  const buckets = new Buckets(clock);
  expect(buckets.take("slow", { perSecond: 0.01 })).toBe(0);
  await clock.advance(60_000);
  expect(buckets.take("slow", { perSecond: 0.01 })).toBe(40_000);
  // A bucket that was empty at a higher rate is not full because a lower one now applies.
  expect(buckets.take("slowed", { perSecond: 10 })).toBe(0);
  expect(buckets.take("slowed", { perSecond: 0.01 })).toBe(0);
  await clock.advance(1_000);
  expect(buckets.take("slowed", { perSecond: 0.01 })).toBe(99_000);
});

it("holds more than a second's worth where it says so, and a debt is paid by time", async () => {
  const clock = manualClock();
  const bucket = new Bucket(clock);
  const rate = { perSecond: 100, most: 250 };
  expect(bucket.take(rate, 0)).toBe(0);
  bucket.charge(750);
  expect(bucket.take(rate, 0)).toBe(5_010);
  expect(bucket.isFull).toBe(false);
  await clock.advance(5_010);
  expect(bucket.take(rate, 0)).toBe(0);
  await clock.advance(3_600_000);
  expect(bucket.isFull).toBe(true);
  expect(bucket.take(rate, 250)).toBe(0);
  expect(bucket.take(rate, 0)).toBe(10);
});
