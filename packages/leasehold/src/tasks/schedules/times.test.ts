/** When schedules fire, around both changes of the clocks of several time zones. */
import { describe, expect, it } from "vitest";
import { nextTimes } from "./rules.js";
import { timesOf } from "./times.js";

interface Case {
  readonly zone: string;
  readonly change: string;
  readonly cron: string;
  readonly after: string;
  readonly fires: readonly string[];
}

/** The times are UTC. */
const CASES: readonly Case[] = [
  {
    zone: "Europe/Zurich",
    change: "forward at 2026-03-29T01:00Z: a time that is left out fires at the end of the gap",
    cron: "30 2 * * *",
    after: "2026-03-27T12:00Z",
    fires: ["2026-03-28T01:30Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z"],
  },
  {
    zone: "Europe/Zurich",
    change: "forward: every half hour",
    cron: "*/30 * * * *",
    after: "2026-03-29T00:10Z",
    fires: ["2026-03-29T00:30Z", "2026-03-29T01:00Z", "2026-03-29T01:30Z"],
  },
  {
    zone: "Europe/Zurich",
    change: "back at 2026-10-25T01:00Z: a time of day that comes twice fires the first time",
    cron: "30 2 * * *",
    after: "2026-10-24T12:00Z",
    fires: ["2026-10-25T00:30Z", "2026-10-26T01:30Z"],
  },
  {
    zone: "Europe/Zurich",
    change: "back: every hour fires in both",
    cron: "0 * * * *",
    after: "2026-10-24T23:30Z",
    fires: ["2026-10-25T00:00Z", "2026-10-25T01:00Z", "2026-10-25T02:00Z"],
  },
  {
    zone: "America/New_York",
    change: "forward at 2026-03-08T07:00Z",
    cron: "30 2 * * *",
    after: "2026-03-07T00:00Z",
    fires: ["2026-03-07T07:30Z", "2026-03-08T07:00Z", "2026-03-09T06:30Z"],
  },
  {
    zone: "America/New_York",
    change: "back at 2026-11-01T06:00Z",
    cron: "30 1 * * *",
    after: "2026-10-31T00:00Z",
    fires: ["2026-10-31T05:30Z", "2026-11-01T05:30Z", "2026-11-02T06:30Z"],
  },
  {
    zone: "America/New_York",
    change: "back: every hour fires in both",
    cron: "15 * * * *",
    after: "2026-11-01T05:00Z",
    fires: ["2026-11-01T05:15Z", "2026-11-01T06:15Z", "2026-11-01T07:15Z"],
  },
  {
    zone: "Australia/Lord_Howe",
    change: "forward by half an hour at 2026-10-03T15:30Z",
    cron: "15 2 * * *",
    after: "2026-10-02T00:00Z",
    fires: ["2026-10-02T15:45Z", "2026-10-03T15:30Z", "2026-10-04T15:15Z"],
  },
  {
    zone: "Australia/Lord_Howe",
    change: "back by half an hour at 2026-04-04T15:00Z",
    cron: "45 1 * * *",
    after: "2026-04-03T00:00Z",
    fires: ["2026-04-03T14:45Z", "2026-04-04T14:45Z", "2026-04-05T15:15Z"],
  },
  {
    zone: "Australia/Lord_Howe",
    change: "back: every quarter of an hour fires in both",
    cron: "*/15 * * * *",
    after: "2026-04-04T14:40Z",
    fires: ["2026-04-04T14:45Z", "2026-04-04T15:00Z", "2026-04-04T15:15Z", "2026-04-04T15:30Z"],
  },
  ...["0,30 2 28 3 *", "*/15 2 28 3 *", "*/20 2-2 28 3 *"].map((cron) => ({
    zone: "Europe/Zurich",
    change: "forward at 2027-03-28T01:00Z: several times that are left out fire once",
    cron,
    after: "2027-03-01T00:00Z",
    fires: ["2027-03-28T01:00Z", "2028-03-28T00:00Z"],
  })),
  {
    zone: "Europe/Zurich",
    change: "forward: one of two times is left out",
    cron: "0 2,14 28 3 *",
    after: "2027-03-01T00:00Z",
    fires: ["2027-03-28T01:00Z", "2027-03-28T12:00Z", "2028-03-28T00:00Z"],
  },
  {
    zone: "Europe/Zurich",
    change: "forward: a time at the end of the gap fires once with one that is left out",
    cron: "0 2-3 * * *",
    after: "2027-03-27T12:00Z",
    fires: ["2027-03-28T01:00Z", "2027-03-29T00:00Z", "2027-03-29T01:00Z"],
  },
  {
    zone: "Europe/Zurich",
    change: "forward: every second hour leaves out the hour that is left out",
    cron: "0 */2 * * *",
    after: "2027-03-27T22:30Z",
    fires: ["2027-03-27T23:00Z", "2027-03-28T02:00Z", "2027-03-28T04:00Z"],
  },
  {
    zone: "Europe/Zurich",
    change: "back: of two times of day, one comes twice",
    cron: "0 2,14 * * *",
    after: "2026-10-24T12:30Z",
    fires: ["2026-10-25T00:00Z", "2026-10-25T13:00Z", "2026-10-26T01:00Z"],
  },
  {
    zone: "Europe/Zurich",
    change: "back: the times of a step come twice",
    cron: "*/15 2 * * *",
    after: "2026-10-24T12:00Z",
    fires: [
      "2026-10-25T00:00Z",
      "2026-10-25T00:15Z",
      "2026-10-25T00:30Z",
      "2026-10-25T00:45Z",
      "2026-10-26T01:00Z",
    ],
  },
  {
    zone: "Europe/Zurich",
    change: "back: every second hour fires in both",
    cron: "0 */2 * * *",
    after: "2026-10-24T21:00Z",
    fires: ["2026-10-24T22:00Z", "2026-10-25T00:00Z", "2026-10-25T01:00Z", "2026-10-25T03:00Z"],
  },
  {
    zone: "America/New_York",
    change: "back: of two times of day, one comes twice",
    cron: "0 1,13 * * *",
    after: "2026-10-31T18:00Z",
    fires: ["2026-11-01T05:00Z", "2026-11-01T18:00Z", "2026-11-02T06:00Z"],
  },
  {
    zone: "America/Havana",
    change: "back at 2026-11-01T05:00Z: midnight comes twice",
    cron: "0 0,12 * * *",
    after: "2026-10-31T17:00Z",
    fires: ["2026-11-01T04:00Z", "2026-11-01T17:00Z", "2026-11-02T05:00Z"],
  },
  {
    zone: "Africa/Cairo",
    change: "forward at 2026-04-23T22:00Z: midnight is left out",
    cron: "0 0,12 * * *",
    after: "2026-04-23T12:00Z",
    fires: ["2026-04-23T22:00Z", "2026-04-24T09:00Z", "2026-04-24T21:00Z"],
  },
];

const ofMinutes = (ms: number) => `${new Date(ms).toISOString().slice(0, 16)}Z`;

describe("a cron schedule", () => {
  it.each(CASES)("in $zone, $change: $cron", async ({ zone, cron, after, fires }) => {
    const times = await timesOf({ cron, everyMs: null, timeZone: zone });
    expect(nextTimes(times, Date.parse(after), fires.length).map(ofMinutes)).toEqual(fires);
  });

  // A tick looks back, and what is shown looks ahead.
  it.each(CASES)("finds the same times backward in $zone: $cron", async (one) => {
    const { zone, cron, after } = one;
    const times = await timesOf({ cron, everyMs: null, timeZone: zone });
    const ahead = nextTimes(times, Date.parse(after), 150);
    const back: number[] = [];
    let atMs: number | null = (ahead.at(-1) ?? 0) + 1;
    while (back.length < ahead.length) {
      atMs = times.previous(atMs);
      if (atMs === null) break;
      back.unshift(atMs);
    }
    expect(back).toEqual(ahead);
  });

  it("has names", async () => {
    const times = await timesOf({ cron: "@daily", everyMs: null, timeZone: "Asia/Tokyo" });
    expect(nextTimes(times, 0, 1).map(ofMinutes)).toEqual(["1970-01-01T15:00Z"]);
  });

  it("has seconds in a sixth field", async () => {
    const times = await timesOf({ cron: "*/20 * * * * *", everyMs: null, timeZone: "UTC" });
    expect(nextTimes(times, 1_000, 3)).toEqual([20_000, 40_000, 60_000]);
    expect(times.previous(20_000)).toBe(0);
    expect(times.previous(20_001)).toBe(20_000);
  });

  it.each([
    ["61 * * * *", "UTC", "cron"],
    ["* * *", "UTC", "cron"],
    ["0 0 0 1 1 * 2030", "UTC", "cron"],
    ["2026-01-01T00:00:00", "UTC", "cron"],
    ["* * * * *", "Mars/Olympus", "timeZone"],
  ])("refuses %s in %s", async (cron, timeZone, path) => {
    await expect(timesOf({ cron, everyMs: null, timeZone })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      path,
    });
  });
});

it("an interval is aligned to 1970, whenever a process starts", async () => {
  const times = await timesOf({ cron: null, everyMs: 90_000, timeZone: "UTC" });
  expect(nextTimes(times, 1_000_000, 2)).toEqual([1_080_000, 1_170_000]);
  expect(times.next(1_080_000)).toBe(1_170_000);
  expect(times.previous(1_080_000)).toBe(990_000);
  expect(times.previous(1_080_001)).toBe(1_080_000);
});
