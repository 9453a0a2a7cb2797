/** Cron expressions: which are refused, with what remedy, and that those of crontab(5) fire when crontab(5) says. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { declarationOf } from "./declaration.js";
import { nextTimes } from "./rules.js";
import { timesOf } from "./times.js";

const fiveFields =
  "must have five fields (minute, hour, day of month, month, day of week), or six with the second first";
const dayOfMonth =
  "must be from 1 to 31, L for the last day, or 15W for the weekday nearest to the 15th";
const dayOfWeek =
  "must be from 0 to 7 or SUN to SAT, or FRI#2 or FRIL for the second or last Friday of the month, whose last day is the day of month L";

/** The expression, and what the message says of it. */
const REFUSED: readonly (readonly [string, string])[] = [
  ["0 0 0 * *", `: day of month "0" ${dayOfMonth}`],
  ["0 0 * 0 *", ': month "0" must be from 1 to 12 or JAN to DEC'],
  ["0 0 * * FRI-MON", ': day of week "FRI-MON" runs backward: write FRI,SAT,SUN,MON'],
  ["0 22-2 * * *", ': hour "22-2" runs backward: write 22,23,0,1,2'],
  [
    "H/15 * * * *",
    ': minute "H/15" is random: write values, or a step such as */15, and set jitterMs',
  ],
  ["TZ=Asia/Tehran 0 0 * * *", " must not have a time zone: remove it from cron, and set timeZone"],
  ["@every 1h30m", " is an interval: set everyMs instead of cron"],
  ["rate(5 minutes)", " is an interval: set everyMs instead of cron"],
  ["@reboot", " has no time: enqueue the task where your program starts"],
  ["0 0 * * L", `: day of week "L" ${dayOfWeek}`],

  ["0 0 * JAN-APR,NOV-FEB *", ': month "NOV-FEB" runs backward: write NOV,DEC,JAN,FEB'],
  ["50-10/5 * * * *", ': minute "50-10/5" runs backward: write 50,55,0,5,10'],
  ["0 0 * * 7-2", ': day of week "7-2" runs backward: write 0,1,2'],
  ["0 0 * * 5-0", ': day of week "5-0" runs backward: write 5,6,0'],
  ["0 0 * * SUN-SUN", ': day of week "SUN-SUN" is one day: write SUN'],
  ["60 * * * *", ': minute "60" must be from 0 to 59'],
  ["0 24 * * *", ': hour "24" must be from 0 to 23'],
  ["60 * * * * *", ': second "60" must be from 0 to 59 (of six fields, the first is the second)'],
  [
    "0 0 * * * report",
    `: day of week "report" ${dayOfWeek} (of six fields, the first is the second)`,
  ],
  ["0 0 * SEPT *", ': month "SEPT" must be from 1 to 12 or JAN to DEC'],
  ["0 0 L-3 * *", `: day of month "L-3" ${dayOfMonth}`],
  ["0 0 LW,1 * *", `: day of month "LW" ${dayOfMonth}`],
  ["0 0 32W * *", `: day of month "32W" ${dayOfMonth}`],
  ["0 0 * * MON#6", `: day of week "MON#6" ${dayOfWeek}`],
  ["? * * * *", ': minute "?" must be from 0 to 59'],
  ["1-2-3 * * * *", ': minute "1-2-3" must be from 0 to 59'],
  ["*-5 * * * *", ': minute "*-5" must be from 0 to 59'],
  ["1e1 * * * *", ': minute "1e1" must be from 0 to 59'],
  ["1,,2 * * * *", ': minute "" is empty: write a value, or remove the comma'],
  ["5/15 * * * *", ': minute "5/15" has a step without a range: write 5-59/15'],
  ["0 0 * MAR/3 *", ': month "MAR/3" has a step without a range: write MAR-DEC/3'],
  ["/15 * * * *", ': minute "/15" has a step without a range: write */15'],
  [
    "*/0 * * * *",
    ': minute "*/0" must have a step from 1 to 60: set everyMs instead of cron for other intervals',
  ],
  [
    "*/90 * * * *",
    ': minute "*/90" must have a step from 1 to 60: set everyMs instead of cron for other intervals',
  ],
  [
    "0~30 * * * *",
    ': minute "0~30" is random: write values, or a step such as */15, and set jitterMs',
  ],
  ["CRON_TZ=UTC 0 0 * * *", " must not have a time zone: remove it from cron, and set timeZone"],
  ["cron(0 12 * * ? *)", " must have the five fields alone, without cron(...)"],
  ["@dayly", " must be @hourly, @daily, @weekly, @monthly, @yearly, or have five fields"],
  ["0 0 * * * # nightly", " must not have a comment: remove what begins with #"],
  ["0 0\u00a0* * *", " must be plain ASCII, without U+00A0"],
  ["0 0 * * MON–FRI", " must be plain ASCII, without U+2013"],
  ["", ` ${fiveFields}, not 0`],
  ["0 0 * *", ` ${fiveFields}, not 4`],
  ["0 0 0 1 1 * 2030", ` ${fiveFields}, not 7`],
  ["0 0 31 2 *", " never fires: no date has this day and this month"],
  ["0 0 30 FEB */2", " never fires: no date has this day and this month"],
  ["0 0 31 4,6,9,11 *", " never fires: no date has this day and this month"],
];

const declare = (cron: string) => declarationOf({ cron, kind: "k", data: null });

describe("a declaration refuses", () => {
  it.each(REFUSED)("%j", async (cron, problem) => {
    await expect(declare(cron)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      path: "cron",
      message: `cron ${JSON.stringify(cron)}${problem}`,
    });
  });

  it("an expression of more than 256 characters, without repeating it", async () => {
    const cron = `${"0,".repeat(124)}0 * * * *`;
    await expect(declare(cron)).rejects.toMatchObject({
      message: "cron must have at most 256 characters, not 257",
    });
    await expect(declare(cron.slice(1).replace(",", "0"))).resolves.toMatchObject({
      everyMs: null,
    });
  });
});

/** After the first of January 2026, a Thursday. */
const DAYS: readonly (readonly [string, readonly string[]])[] = [
  // Both, as one of them begins with *.
  ["17 3 1-7 * */7", ["2026-01-04", "2026-02-01", "2026-03-01"]],
  ["0 0 */2 * 3", ["2026-01-07", "2026-01-21", "2026-02-11"]],
  ["0 0 * * MON", ["2026-01-05", "2026-01-12", "2026-01-19"]],
  ["0 0 ? * MON", ["2026-01-05", "2026-01-12", "2026-01-19"]],
  ["0 0 13 * ?", ["2026-01-13", "2026-02-13", "2026-03-13"]],
  ["0 0 0 */10 * 1-5", ["2026-01-21", "2026-02-11", "2026-03-11"]],
  ["0 0 13 * +FRI", ["2026-02-13", "2026-03-13", "2026-11-13"]],
  // Either.
  ["0 0 13 * FRI", ["2026-01-02", "2026-01-09", "2026-01-13"]],
  ["0 0 1-3 * 7", ["2026-01-02", "2026-01-03", "2026-01-04"]],
  ["0 0 31,*/30 * 0", ["2026-01-04", "2026-01-11", "2026-01-18"]],

  // A star within a list is each day, and only a first one demands both.
  ["0 2 L,* * FRI", ["2026-01-02", "2026-01-03", "2026-01-04"]],
  ["0 2 *,L * FRI", ["2026-01-02", "2026-01-09", "2026-01-16"]],
  ["0 2 13,l,*,L * FRI", ["2026-01-02", "2026-01-03", "2026-01-04"]],
  ["0 2 L,* * *", ["2026-01-02", "2026-01-03", "2026-01-04"]],
  ["0 2 13 * FRI,*", ["2026-01-02", "2026-01-03", "2026-01-04"]],
  ["0 2 13 * FRIL,*", ["2026-01-02", "2026-01-03", "2026-01-04"]],
  ["0 2 13 * *,FRI#2", ["2026-01-13", "2026-02-13", "2026-03-13"]],
  ["0 2 13 *,JAN *", ["2026-01-13", "2026-02-13", "2026-03-13"]],

  ["0 0 L * *", ["2026-01-31", "2026-02-28", "2026-03-31"]],
  ["0 0 lw * *", ["2026-01-30", "2026-02-27", "2026-03-31"]],
  ["0 0 1W,15w * *", ["2026-01-15", "2026-02-02", "2026-02-16"]],
  ["0 0 * * FRI#2", ["2026-01-09", "2026-02-13", "2026-03-13"]],
  ["0 0 * * 5L", ["2026-01-30", "2026-02-27", "2026-03-27"]],
  ["0 0 * * MON-FRI/2", ["2026-01-02", "2026-01-05", "2026-01-07"]],
  ["0 0 * * sat-sun", ["2026-01-03", "2026-01-04", "2026-01-10"]],
  [" 0\t0 29 feb *\n", ["2028-02-29", "2032-02-29", "2036-02-29"]],
  ["@Monthly", ["2026-02-01", "2026-03-01", "2026-04-01"]],
];

describe("an expression fires on the days that its fields name together", () => {
  it.each(DAYS)("%j", async (cron, days) => {
    const times = await timesOf({ cron, everyMs: null, timeZone: "UTC" });
    const found = nextTimes(times, Date.UTC(2026, 0, 1, 12), days.length);
    expect(found.map((ms) => new Date(ms).toISOString().slice(0, 10))).toEqual(days);
  });
});

interface Drawn {
  readonly text: string;
  readonly values: ReadonlySet<number>;
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEK = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/** A field as crontab(5) has it, with the numbers that it names. */
function fieldOf(min: number, max: number, names: readonly string[] = []): fc.Arbitrary<Drawn> {
  const written = (value: number, isNamed: boolean) =>
    (isNamed ? names[value - min] : undefined) ?? String(value);
  const value = fc.integer({ min, max });
  const step = fc.option(fc.integer({ min: 1, max: 7 }), { nil: undefined });
  const range = fc
    .record({ ends: fc.tuple(value, value), step, isNamed: fc.boolean() })
    .map(({ ends, step, isNamed }) => {
      const [from = min, to = max] = ends.toSorted((a, b) => a - b);
      const span = from === to ? written(from, isNamed) : `${from}-${to}`;
      return step === undefined || from === to
        ? { text: span, from, to, step: 1 }
        : { text: `${span}/${step}`, from, to, step };
    });
  const star = step.map((step) => ({
    text: step === undefined ? "*" : `*/${step}`,
    from: min,
    to: max,
    step: step ?? 1,
  }));
  return fc.array(fc.oneof(star, range), { minLength: 1, maxLength: 3 }).map((elements) => {
    const values = new Set<number>();
    for (const { from, to, step } of elements) {
      for (let value = from; value <= to; value += step) values.add(value);
    }
    return { text: elements.map(({ text }) => text).join(), values };
  });
}

const DAY_MS = 86_400_000;
const START_MS = Date.UTC(2027, 6, 1);

it("fires as crontab(5) says, minute by minute of a year", async () => {
  const fields = fc.record({
    minute: fieldOf(0, 59),
    hour: fieldOf(0, 23),
    day: fieldOf(1, 31),
    month: fieldOf(1, 12, MONTHS),
    week: fieldOf(0, 7, WEEK),
  });
  const property = fc.asyncProperty(fields, fc.nat(364), async (drawn, firstDay) => {
    const { minute, hour, day, month, week } = drawn;
    const cron = [minute, hour, day, month, week].map(({ text }) => text).join(" ");
    const both = day.text.startsWith("*") || week.text.startsWith("*");
    const isOn = (at: Date) => {
      const isWeekday = week.values.has(at.getUTCDay()) || week.values.has(at.getUTCDay() || 7);
      const isDay = day.values.has(at.getUTCDate());
      return (
        month.values.has(at.getUTCMonth() + 1) && (both ? isDay && isWeekday : isDay || isWeekday)
      );
    };
    const expected: number[] = [];
    const [beginMs, endMs] = [START_MS + firstDay * DAY_MS, START_MS + 366 * DAY_MS];
    for (let dayMs = beginMs; dayMs < endMs && expected.length < 50; dayMs += DAY_MS) {
      if (!isOn(new Date(dayMs))) continue;
      for (let ofDay = 0; ofDay < 24 * 60; ofDay += 1) {
        if (!hour.values.has(Math.floor(ofDay / 60)) || !minute.values.has(ofDay % 60)) continue;
        expected.push(dayMs + ofDay * 60_000);
      }
    }
    const times = await timesOf({ cron, everyMs: null, timeZone: "UTC" });
    const found = nextTimes(times, beginMs - 1, 50).filter((ms) => ms < endMs);
    expect(found, cron).toEqual(expected.slice(0, 50));
  });
  await fc.assert(property, { numRuns: 60 });
});

it("gives the cron library no text that it refuses", async () => {
  const element = fc.oneof(
    fc.constantFrom("*", "?", "L", "LW", "1W", "31w", "FRI#2", "fril", "7L", "0#5", "+MON", "SUN"),
    fc.constantFrom("SAT-SUN", "mon-fri/2", "*/7", "*/60", "07", "1-7/7", "JAN", "1-12/3", "0-0"),
    fc.stringMatching(/^[0-9*/,\-#LWHA-Z?+]{1,5}$/),
  );
  const list = fc.array(element, { minLength: 1, maxLength: 2 }).map((parts) => parts.join());
  const text = fc.array(fc.oneof(element, list), { minLength: 5, maxLength: 6 });
  const property = fc.asyncProperty(text, async (fields) => {
    const cron = fields.join(" ");
    try {
      await timesOf({ cron, everyMs: null, timeZone: "UTC" });
    } catch (error) {
      expect(error, cron).toMatchObject({ code: "INVALID_OPTION" });
    }
  });
  await fc.assert(property, { numRuns: 500 });
});
