import { describe, expect, it } from "vitest";
import type { DueSchedule } from "./port.js";
import {
  catchUpOf,
  everyTimes,
  LATE_MS,
  mostOf,
  NEVER_MS,
  nextTimes,
  RECHECK_MS,
  stepOf,
} from "./rules.js";

const TIMES = everyTimes(1_000);
const DUE: DueSchedule = {
  namespace: "default",
  name: "nightly",
  declaration: {
    cron: null,
    timeZone: "UTC",
    everyMs: 1_000,
    catchUp: "last",
    overlap: "skip",
    jitterMs: 0,
  },
  revision: 1,
  lastFireAtMs: 10_000,
  waiting: [],
  isRunning: false,
};
type Change = Partial<DueSchedule["declaration"]> & Partial<DueSchedule>;
function stepAt(nowMs: number, { catchUp, overlap, ...rest }: Change = {}) {
  const declaration = {
    ...DUE.declaration,
    ...(catchUp && { catchUp }),
    ...(overlap && { overlap }),
  };
  return stepOf({ ...DUE, declaration, ...rest }, nowMs, TIMES);
}

describe("a tick", () => {
  it("fires at a fire time, and not before", () => {
    const idle = { fireAtMs: [], lastFireAtMs: 10_000, waiting: [], dueAtMs: 11_000, skipped: 0 };
    expect(stepAt(10_999)).toEqual(idle);
    const fired = { ...idle, fireAtMs: [11_000], lastFireAtMs: 11_000, dueAtMs: 12_000 };
    expect(stepAt(11_000)).toEqual(fired);
    expect(stepAt(11_999)).toEqual(fired);
  });

  it("makes up for the last fire time, for the last n, or for none", () => {
    const last = stepAt(14_500);
    expect(last).toMatchObject({ fireAtMs: [14_000], lastFireAtMs: 14_000, skipped: 3 });
    const some = stepAt(14_500, { catchUp: { most: 3 }, overlap: "allow" });
    expect(some).toMatchObject({ fireAtMs: [12_000, 13_000, 14_000], skipped: 1 });
    const every = stepAt(14_500, { catchUp: { most: 9 }, overlap: "allow" });
    expect(every).toMatchObject({ fireAtMs: [11_000, 12_000, 13_000, 14_000], skipped: 0 });
    expect(stepAt(14_500, { catchUp: "none" }).fireAtMs).toEqual([14_000]);
    const hourly = everyTimes(3_600_000);
    const none = { ...DUE, declaration: { ...DUE.declaration, catchUp: "none" as const } };
    const late = stepOf(none, 3_600_000 + LATE_MS, hourly);
    expect(late).toMatchObject({ fireAtMs: [], lastFireAtMs: 3_600_000, skipped: 1 });
    expect(stepOf(none, 3_600_000 + LATE_MS - 1, hourly).fireAtMs).toEqual([3_600_000]);
  });

  it("counts no more than a thousand fire times that were missed", () => {
    const long = stepAt(10_000_000, { catchUp: { most: 1_000 }, overlap: "allow" });
    expect(long.fireAtMs).toHaveLength(1_000);
    expect(long).toMatchObject({ lastFireAtMs: 10_000_000, skipped: 0 });
  });

  it("skips fire times while the last task is unfinished", () => {
    const skipping = stepAt(11_000, { isRunning: true });
    expect(skipping).toMatchObject({ fireAtMs: [], lastFireAtMs: 11_000, skipped: 1 });
    // Several at once would overlap each other.
    const several = stepAt(13_000, { catchUp: { most: 3 } });
    expect(several).toMatchObject({ fireAtMs: [13_000], skipped: 2 });
  });

  it("lets fire times wait, and makes a task of the first when the last one has ended", () => {
    const queue = { catchUp: { most: 9 }, overlap: "queue" } as const;
    const waiting = stepAt(12_100, { ...queue, isRunning: true, waiting: [9_000] });
    expect(waiting).toEqual({
      fireAtMs: [],
      waiting: [9_000, 11_000, 12_000],
      lastFireAtMs: 12_000,
      dueAtMs: 12_100 + RECHECK_MS,
      skipped: 0,
    });
    const next = stepAt(12_100, { ...queue, waiting: [9_000] });
    expect(next).toMatchObject({ fireAtMs: [9_000], waiting: [11_000, 12_000], skipped: 0 });
    const only = stepAt(11_000, queue);
    expect(only).toMatchObject({ fireAtMs: [11_000], waiting: [], dueAtMs: 12_000 });
    const full = Array.from({ length: 1_000 }, (_, n) => n);
    const more = stepAt(12_100, { ...queue, isRunning: true, waiting: full });
    expect(more).toMatchObject({ fireAtMs: [], waiting: full, skipped: 2 });
    // What waited before the schedule was declared to skip.
    expect(stepAt(10_100, { waiting: [8_000, 9_000] })).toMatchObject({
      fireAtMs: [9_000],
      waiting: [],
      skipped: 1,
    });
  });

  it("fires nothing twice when the store's clock was put back", () => {
    const back = stepAt(3_500);
    expect(back).toMatchObject({ fireAtMs: [], lastFireAtMs: 10_000, dueAtMs: 11_000 });
  });

  it("is never due again after the last fire time", () => {
    const over = { next: () => null, previous: () => 5_000 };
    const step = stepOf({ ...DUE, lastFireAtMs: 5_000 }, 12_000, over);
    expect(step).toMatchObject({ fireAtMs: [], dueAtMs: NEVER_MS });
  });
});

it("says how many fire times are made up for as a number, and back", () => {
  for (const [catchUp, most] of [
    ["none", 0],
    ["last", 1],
    [{ most: 7 }, 7],
  ] as const) {
    expect(mostOf(catchUp)).toBe(most);
    expect(catchUpOf(most)).toEqual(catchUp);
  }
});

it("shows fewer fire times if there are no more", () => {
  const times = {
    next: (afterMs: number) => (afterMs < 2 ? afterMs + 1 : null),
    previous: () => null,
  };
  expect(nextTimes(times, 0, 5)).toEqual([1, 2]);
  expect(nextTimes(times, 0, 1)).toEqual([1]);
});
