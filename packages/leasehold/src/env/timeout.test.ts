import { expect, it } from "vitest";
import { manualClock } from "../testing/index.js";
import { sleep, withTimeout } from "./index.js";

const late = () => {
  throw new Error("late");
};

it("gives the outcome of a promise that settles in time, and cancels the timer", async () => {
  const clock = manualClock();
  expect(await withTimeout(clock, 100, Promise.resolve("in time"), late)).toBe("in time");
  const failing = Promise.reject(new Error("broken"));
  await expect(withTimeout(clock, 100, failing, late)).rejects.toThrow("broken");
  expect(clock.pendingTimers).toBe(0);
});

it("gives what onTimeout returns or throws once the time is over, and ignores what comes later", async () => {
  const clock = manualClock();
  const slow = () => sleep(clock, 200).then(() => Promise.reject(new Error("too late")));
  const returned = withTimeout(clock, 100, slow(), () => "instead");
  const thrown = expect(withTimeout(clock, 100, slow(), late)).rejects.toThrow("late");
  await clock.advance(100);
  expect(await returned).toBe("instead");
  await thrown;
  await clock.advance(100);
  expect(clock.pendingTimers).toBe(0);
});

it("uses a background timer if an option says so", async () => {
  const clock = manualClock();
  const asked: unknown[] = [];
  const watched: typeof clock = {
    ...clock,
    timer(delayMs, callback, options) {
      asked.push(options?.background);
      return clock.timer(delayMs, callback, options);
    },
  };
  await withTimeout(watched, 1, Promise.resolve(), late);
  await withTimeout(watched, 1, Promise.resolve(), late, { background: true });
  expect(asked).toEqual([undefined, true]);
});
