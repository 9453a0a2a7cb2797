import { expect, it } from "vitest";
import { currentOf, permitsOf, started, usedUpUntilMs } from "./limits.js";

const rate = { limit: 2, perMs: 1_000 };
const window = { startMs: 5_000, used: 2 };

it("lets as many tasks start as a window has left, until it ends", () => {
  expect(permitsOf(null, window, 5_000)).toBe(Number.POSITIVE_INFINITY);
  expect(permitsOf(rate, undefined, 5_000)).toBe(2);
  expect(permitsOf(rate, { ...window, used: 1 }, 5_999)).toBe(1);
  expect(permitsOf(rate, window, 5_999)).toBe(0);
  expect(usedUpUntilMs(rate, window, 5_999)).toBe(6_000);
  expect(permitsOf(rate, window, 6_000)).toBe(2);
  expect(usedUpUntilMs(rate, window, 6_000)).toBe(null);
  expect(started(rate, { ...window, used: 1 }, 5_999)).toEqual(window);
  expect(started(rate, window, 6_000)).toEqual({ startMs: 6_000, used: 1 });
});

it("begins a new window when the clock was set back to before the last one", () => {
  expect(currentOf(rate, window, 4_999)).toBe(undefined);
  expect(permitsOf(rate, window, 4_999)).toBe(2);
  expect(usedUpUntilMs(rate, window, 4_999)).toBe(null);
  expect(started(rate, window, 4_999)).toEqual({ startMs: 4_999, used: 1 });
});
