import { manualClock } from "leasehold/testing";
import { expect, it } from "vitest";
import { beganAt, PerSecond } from "./per-second.js";

it("keeps the counts of each second, and no more, however long it runs", async () => {
  const clock = manualClock();
  const counts = new PerSecond<string>(clock, 5);
  for (let second = 1; second <= 23; second += 1) {
    counts.add("requests", second);
    const latest = Array.from({ length: 5 }, (_, index) => Math.max(0, second - 4 + index));
    expect(counts.of("requests", 5)).toEqual(latest);
    expect(counts.sum("requests", 2)).toBe(second + Math.max(0, second - 1));
    await clock.advance(1_000);
  }
  // The last second is still in progress; longer silence leaves nothing.
  expect(counts.of("requests", 3)).toEqual([22, 23, 0]);
  for (const passedMs of [2_000, 4_000, 5_000, 60_000]) {
    counts.add("requests", 7);
    await clock.advance(passedMs);
    const kept = passedMs < 5_000 ? 7 : 0;
    expect(counts.sum("requests", 5)).toBeGreaterThanOrEqual(kept);
    expect(counts.of("requests", 5).at(-1)).toBe(0);
  }
  expect(counts.sum("requests", 5)).toBe(0);
});

it("sets the value of the current second alone", async () => {
  const clock = manualClock();
  const gauge = new PerSecond<string>(clock, 3);
  for (const value of [4, 6, 8, 10]) {
    gauge.set("depth", 1);
    gauge.set("depth", value);
    await clock.advance(1_000);
  }
  expect(gauge.of("depth", 3)).toEqual([8, 10, 0]);
});

it("names the time at which the first of its seconds began", async () => {
  const clock = manualClock();
  await clock.advance(10_250);
  const at = (ms: number) => new Date(clock.wall() + ms).toISOString();
  expect([beganAt(clock, 1), beganAt(clock, 60)]).toEqual([at(-250), at(-59_250)]);
});
