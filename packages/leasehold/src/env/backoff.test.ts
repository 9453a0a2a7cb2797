import { expect, it } from "vitest";
import { seededRandom } from "../testing/index.js";
import { Backoff } from "./index.js";

/** Random whose jitter is none. */
const even = { ...seededRandom(1), float: () => 0.5 };

it("doubles the delay up to the longest, until it is reset", () => {
  const backoff = new Backoff(even, { firstMs: 25, longestMs: 150 });
  const delays = () => Array.from({ length: 5 }, () => backoff.nextMs());
  expect(delays()).toEqual([25, 50, 100, 150, 150]);
  backoff.reset();
  expect(delays()).toEqual([25, 50, 100, 150, 150]);
});

it("stays at the longest however many failures there are", () => {
  const backoff = new Backoff(even, { firstMs: 25, longestMs: 150 });
  for (let n = 0; n < 2_000; n += 1) backoff.nextMs();
  expect(backoff.nextMs()).toBe(150);
});

it("spreads the delays over the jitter on both sides", () => {
  const random = seededRandom(1);
  for (const [options, lowest, highest] of [
    [{ firstMs: 100, longestMs: 100 }, 50, 150],
    [{ firstMs: 100, longestMs: 100, jitter: 0.2 }, 80, 120],
  ] as const) {
    const backoff = new Backoff(random, options);
    const delays = Array.from({ length: 1_000 }, () => backoff.nextMs());
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(lowest);
    expect(Math.min(...delays)).toBeLessThan(lowest + 2);
    expect(Math.max(...delays)).toBeLessThanOrEqual(highest);
    expect(Math.max(...delays)).toBeGreaterThan(highest - 2);
  }
});
