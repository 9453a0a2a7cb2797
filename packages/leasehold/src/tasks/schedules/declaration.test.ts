/** What a program's declaration says, with what its kind says, and the fire times that are shown of it. */
import { expect, it } from "vitest";
import { InvalidOptionError } from "../../lease/index.js";
import { defineTask } from "../define.js";
import { declarationOf, nextFireTimes } from "./declaration.js";
import type { ScheduleView } from "./port.js";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

it("has the version, the key and the times of the kind, each unless it says otherwise", async () => {
  const rate = { limit: 3, perMs: 60_000 };
  const kind = defineTask<{ account: string }>("pay", {
    version: 4,
    concurrencyKey: ({ account }) => account,
    order: "any",
    rate,
    backoff: { firstMs: 5, longestMs: 50 },
    crashLimit: 2,
    retain: { doneMs: 7 },
  });
  const options = { everyMs: HOUR_MS, kind, data: { account: "ada" } };
  const settings = {
    version: 4,
    concurrency: { key: "ada", perKey: 1, order: "any", rate },
    backoff: { firstMs: 5, longestMs: 50 },
    crashLimit: 2,
    retain: { doneMs: 7, deadMs: 30 * DAY_MS },
  };
  expect((await declarationOf(options)).task).toMatchObject(settings);
  const own = { backoff: { firstMs: 6 }, crashLimit: 9, retain: { deadMs: null }, priority: -1 };
  const kept = { retain: { doneMs: 7, deadMs: null }, backoff: { firstMs: 6, longestMs: 50 } };
  const changed = { ...settings, ...own, ...kept };
  expect((await declarationOf({ ...options, ...own })).task).toMatchObject(changed);
});

it("takes an interval from 100 ms to 366 days, and a jitter up to a day", async () => {
  const declare = (change: object) => declarationOf({ kind: "k", data: null, ...change });
  for (const everyMs of [100, 366 * DAY_MS]) {
    expect(await declare({ everyMs })).toMatchObject({ everyMs, cron: null });
  }
  expect(await declare({ everyMs: 100, jitterMs: DAY_MS })).toMatchObject({ jitterMs: DAY_MS });
  const most = { catchUp: { most: 1_000 } };
  expect(await declare({ everyMs: 100, ...most })).toMatchObject(most);
  for (const [wrong, path] of [
    [{ everyMs: 366 * DAY_MS + 1 }, "everyMs"],
    [{ everyMs: 100, jitterMs: DAY_MS + 1 }, "jitterMs"],
    [{ everyMs: 100, catchUp: { most: 1_001 } }, "catchUp.most"],
    [{ everyMs: 100, catchUp: { most: 1, more: 2 } }, "more"],
    [{ everyMs: 100, catchUp: null }, "catchUp"],
    [{ everyMs: 100, timeZone: "Europe/Zurich" }, "timeZone"],
    [{ everyMs: 100, timeZone: "UTC" }, "timeZone"],
  ] as const) {
    const error = await declare(wrong).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InvalidOptionError);
    expect(error).toMatchObject({ path });
  }
});

it.each([3, "all", null, true])("names what catchUp may be, given %j", async (catchUp) => {
  const options = { everyMs: 100, kind: "k", data: null, catchUp: catchUp as "last" };
  await expect(declarationOf(options)).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: 'catchUp must be "none", "last" or { most: n }',
  });
});

const daily = { cron: "0 9 * * *", kind: "k", data: null };

it.each(["BST", "IST", "AST", "PST", "CST", "ACT", "EST", "ist", "MST7MDT", "Singapore"])(
  "refuses the time zone %s, which has no area and city",
  async (timeZone) => {
    await expect(declarationOf({ ...daily, timeZone })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      path: "timeZone",
      message: `timeZone must be UTC, or an IANA time zone with area and city, such as Europe/London, got "${timeZone}"`,
    });
  },
);

it.each([
  ["Europe/Bern", '"Europe/Bern"'],
  ["", "an empty string"],
  [null, "null"],
  [2, "the number 2"],
])("refuses the time zone %j, and says what it got", async (timeZone, got) => {
  await expect(declarationOf({ ...daily, timeZone: timeZone as string })).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: `timeZone must be an IANA time zone, such as "Europe/Zurich", got ${got}`,
  });
});

it.each(["UTC", "utc", "GMT", "Etc/UTC", "Etc/GMT+3", "US/Eastern", "America/Indiana/Knox"])(
  "takes the time zone %s",
  async (timeZone) => {
    await expect(declarationOf({ ...daily, timeZone })).resolves.toMatchObject({ timeZone });
  },
);

it("still shows when a stored schedule in an ambiguous time zone fires", async () => {
  const declaration = await declarationOf(daily);
  const stored = { ...declaration, timeZone: "IST", paused: null, lastFireAt: "2020-01-01T00:00Z" };
  const [first] = await nextFireTimes(stored as ScheduleView, 0);
  expect(first).toBe("2020-01-01T03:30:00.000Z");
});

it("shows the next five fire times, none of them before the last one", async () => {
  const declaration = await declarationOf({ everyMs: HOUR_MS, kind: "k", data: null });
  const noon = "2020-01-01T12:00:00.000Z";
  const view: ScheduleView = {
    ...declaration,
    namespace: "default",
    name: "s",
    declaredAt: noon,
    lastFireAt: noon,
    paused: null,
    waiting: 0,
    fired: 0,
    skipped: 0,
    lastTask: null,
  };
  const hours = async (nowMs: number, change: Partial<ScheduleView> = {}) =>
    (await nextFireTimes({ ...view, ...change }, nowMs)).map((at) => at.slice(11, 16));
  const nowMs = Date.parse(noon);
  expect(await hours(nowMs)).toEqual(["13:00", "14:00", "15:00", "16:00", "17:00"]);
  expect((await hours(nowMs + HOUR_MS))[0]).toBe("14:00");
  // This clock is behind that of the store, which has dealt with 12:00.
  expect((await hours(nowMs - 5 * HOUR_MS))[0]).toBe("13:00");
  const paused = { at: noon, by: "ada", reason: null };
  expect(await hours(nowMs, { paused })).toEqual([]);
  const zoned = { cron: "30 2 * * *", everyMs: null, timeZone: "Asia/Tokyo" };
  expect((await hours(nowMs, zoned))[0]).toBe("17:30");
});
