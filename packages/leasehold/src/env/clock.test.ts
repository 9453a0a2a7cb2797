/** The clock of the machine, sleeps, and how late timers are. */
import { getEventListeners } from "node:events";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { recordedTelemetry } from "../../../../tests/support/worlds/recorded-telemetry.js";
import { manualClock } from "../testing/index.js";
import { type Clock, sleep, systemClock } from "./clock.js";
import { measureStalls } from "./stalls.js";

const DAY_MS = 86_400_000;

describe("a timer of the system", () => {
  const called = vi.fn();
  beforeEach(() => {
    vi.useFakeTimers();
    called.mockReset();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  // The runtime bounds a delay by 2^31 - 1 ms, 24.8 days, and fires longer ones at once.
  it.each([2 ** 31 - 2, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, 30 * DAY_MS, 100 * DAY_MS])(
    "fires after %i ms, once, and not before",
    (delayMs) => {
      systemClock.timer(delayMs, called);
      vi.advanceTimersByTime(delayMs - 1);
      expect(called).not.toHaveBeenCalled();
      vi.advanceTimersByTime(1);
      expect(called).toHaveBeenCalledTimes(1);
      expect(vi.getTimerCount()).toBe(0);
    },
  );

  it("fires at once for a delay that has passed", () => {
    systemClock.timer(-5, called);
    vi.advanceTimersByTime(0);
    expect(called).toHaveBeenCalledTimes(1);
  });

  it("can be cancelled, also after weeks", () => {
    const [soon, late] = [systemClock.timer(1_000, called), systemClock.timer(60 * DAY_MS, called)];
    soon.cancel();
    vi.advanceTimersByTime(50 * DAY_MS);
    late.cancel();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("never fires for an endless delay", () => {
    const endless = systemClock.timer(Infinity, called);
    vi.advanceTimersByTime(100 * DAY_MS);
    expect(called).not.toHaveBeenCalled();
    endless.cancel();
    expect(vi.getTimerCount()).toBe(0);
  });
});

it("holds the process open by a timer, unless it is in the background", () => {
  const holding = () =>
    process.getActiveResourcesInfo().filter((type) => type === "Timeout").length;
  const before = holding();
  const background = systemClock.timer(60_000, () => {}, { background: true });
  expect(holding()).toBe(before);
  const timer = systemClock.timer(60_000, () => {});
  expect(holding()).toBe(before + 1);
  timer.cancel();
  background.cancel();
  expect(holding()).toBe(before);
});

it("leaves no listener and no timer behind when a sleep ends, with its time or its signal", async () => {
  const clock = manualClock();
  const gone = new AbortController();
  const { signal } = gone;
  for (let round = 0; round < 3; round += 1) {
    const slept = sleep(clock, 1_000, { signal });
    await clock.advance(1_000);
    await slept;
    expect(getEventListeners(signal, "abort")).toEqual([]);
  }
  const reason = new Error("gone");
  const cut = expect(sleep(clock, 1_000, { signal })).rejects.toBe(reason);
  gone.abort(reason);
  await cut;
  await expect(sleep(clock, 1_000, { signal })).rejects.toBe(reason);
  expect(getEventListeners(signal, "abort")).toEqual([]);
  expect(clock.pendingTimers).toBe(0);
});

it("measures each stall from when its own timer was due, until it is stopped", async () => {
  const manual = manualClock();
  let lateMs = 0;
  const clock: Clock = {
    ...manual,
    timer: (delayMs, callback, options) => manual.timer(delayMs + lateMs, callback, options),
  };
  const { telemetry, valuesOf } = recordedTelemetry();
  const stop = measureStalls({ telemetry, clock });
  await manual.advance(100);
  lateMs = 40;
  await manual.advance(100);
  lateMs = 0;
  await manual.advance(140);
  await manual.advance(100);
  const stalls = valuesOf("leasehold.process.stall").map(([, ms]) => ms);
  expect(stalls).toContain(40);
  expect(stalls.filter((ms) => ms !== 40)).toEqual(stalls.slice(1).map(() => 0));
  stop();
  expect(manual.pendingTimers).toBe(0);
  expect(measureStalls({ clock: manual })()).toBeUndefined();
  expect(manual.pendingTimers).toBe(0);
});
