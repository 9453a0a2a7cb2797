/** That lists, ranges and steps fire as docs/schedules.md says at every change of the clocks, computed minute by minute. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { nextTimes } from "./rules.js";
import { timesOf } from "./times.js";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** A time zone, and the days of UTC in which its clocks change. */
const CHANGES: readonly (readonly [string, string])[] = [
  ["Europe/Zurich", "2027-03-28"],
  ["Europe/Zurich", "2026-10-25"],
  ["America/New_York", "2026-03-08"],
  ["America/New_York", "2026-11-01"],
  // At midnight.
  ["America/Havana", "2026-11-01"],
  ["Africa/Cairo", "2026-04-23"],
  ["Africa/Cairo", "2026-10-29"],
  // By half an hour.
  ["Australia/Lord_Howe", "2026-10-03"],
  ["Australia/Lord_Howe", "2026-04-04"],
];

interface Minute {
  readonly atMs: number;
  /** The minutes since 1970 that the clock on the wall shows. */
  readonly wall: number;
}

/** The minutes of five days around a change. */
function minutesAround(zone: string, day: string): Minute[] {
  const format = new Intl.DateTimeFormat("sv", {
    timeZone: zone,
    dateStyle: "short",
    timeStyle: "short",
  });
  const middleMs = Date.parse(day);
  const minutes: Minute[] = [];
  for (let atMs = middleMs - 2 * DAY_MS; atMs < middleMs + 3 * DAY_MS; atMs += MINUTE_MS) {
    const wall = Date.parse(`${format.format(atMs).replace(" ", "T")}Z`) / MINUTE_MS;
    minutes.push({ atMs, wall });
  }
  return minutes;
}

interface Field {
  readonly text: string;
  readonly has: (value: number) => boolean;
}

/** A value, a range, a step or a list of two of them. */
function fieldOf(max: number): fc.Arbitrary<Field> {
  const value = fc.integer({ min: 0, max });
  const step = fc.integer({ min: 1, max: 20 });
  const element: fc.Arbitrary<Field> = fc.oneof(
    value.map((only) => ({ text: `${only}`, has: (one: number) => one === only })),
    fc.tuple(value, value, step).map(([a, b, by]) => {
      const [from, to] = [Math.min(a, b), Math.max(a, b)];
      const has = (one: number) => one >= from && one <= to && (one - from) % by === 0;
      return { text: by === 1 ? `${from}-${to}` : `${from}-${to}/${by}`, has };
    }),
    step.map((by) => ({ text: `*/${by}`, has: (one: number) => one % by === 0 })),
    fc.constant({ text: "*", has: () => true }),
  );
  const list = fc.tuple(element, element).map(([a, b]) => ({
    text: `${a.text},${b.text}`,
    has: (one: number) => a.has(one) || b.has(one),
  }));
  return fc.oneof(element, list);
}

/** By the words of the page: of the minutes, those that an expression of a minute and an hour names. */
function firesOf(minutes: readonly Minute[], minute: Field, hour: Field): number[] {
  const isNamed = (wall: number) => minute.has(wall % 60) && hour.has(Math.floor(wall / 60) % 24);
  const isHourly = /^\*(\/\d+)?$/.test(hour.text);
  const fires: number[] = [];
  let shown = (minutes[0]?.wall ?? 0) - 1;
  for (const { atMs, wall } of minutes) {
    let isDue = false;
    if (isHourly) isDue = isNamed(wall);
    // All that the clock on the wall has reached since the last minute, and did not show before.
    else for (let each = shown + 1; each <= wall; each += 1) isDue ||= isNamed(each);
    if (isDue) fires.push(atMs);
    shown = Math.max(shown, wall);
  }
  return fires;
}

it.each(CHANGES)("fires as the page says in %s around %s", async (zone, day) => {
  const minutes = minutesAround(zone, day);
  const [firstMs = 0, lastMs = 0] = [minutes[0]?.atMs, minutes.at(-1)?.atMs];
  // The hours near a change are drawn more often.
  const near = fc.constantFrom("0,12", "1,2", "2,14", "1-3", "0-23", "*/2", "*/12", "2");
  const hours = fc.oneof(
    fieldOf(23),
    near.map((text) => ({ text, has: hourHas(text) })),
  );
  const property = fc.asyncProperty(
    fieldOf(59),
    hours,
    fc.nat(minutes.length - 1),
    async (minute, hour, cut) => {
      const cron = `${minute.text} ${hour.text} * * *`;
      const fires = firesOf(minutes, minute, hour);
      const times = await timesOf({ cron, everyMs: null, timeZone: zone });
      const from = Math.max(0, fires.findIndex((ms) => ms > firstMs + cut * MINUTE_MS) - 20);
      const some = fires.slice(from, from + 40);
      expect(nextTimes(times, (some[0] ?? 0) - 1, some.length), cron).toEqual(some);
      for (const [index, atMs] of some.entries()) {
        if (index > 0) expect(times.previous(atMs), cron).toBe(some[index - 1]);
      }
      // From a time between fire times, such as one in the second of two hours.
      const cutMs = Math.min(firstMs + cut * MINUTE_MS, lastMs);
      const before = fires.filter((ms) => ms < cutMs).at(-1);
      const after = fires.find((ms) => ms > cutMs);
      if (before !== undefined) expect(times.previous(cutMs), cron).toBe(before);
      if (after !== undefined) expect(times.next(cutMs), cron).toBe(after);
    },
  );
  await fc.assert(property, { numRuns: 40 });
});

function hourHas(text: string): (hour: number) => boolean {
  const step = /^\*\/(\d+)$/.exec(text);
  if (step) return (hour) => hour % Number(step[1]) === 0;
  const range = /^(\d+)-(\d+)$/.exec(text);
  if (range) return (hour) => hour >= Number(range[1]) && hour <= Number(range[2]);
  return (hour) => text.split(",").map(Number).includes(hour);
}
