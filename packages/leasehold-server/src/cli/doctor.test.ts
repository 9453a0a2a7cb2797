import { expect, it } from "vitest";
import { decisiveRenewal, judgeLeft, judgeTtl } from "./doctor.js";

const TTL = { pauseMs: 1, renewalMs: 1, marginMs: 10, leastMs: 12, ruleMs: 21, advisedMs: 1_000 };
const production = (leftCount: number) => ({
  source: "here",
  renewal: null,
  delay: null,
  stall: null,
  leastLeftMs: 500,
  leftCount,
});

it("states a share of 1,000 only of so many renewals, and how many there were", () => {
  expect(judgeLeft(production(87), TTL)[0]?.value).toBe("at least 500 ms for all 87 renewals");
  expect(judgeLeft(production(2_000), TTL)[0]?.value).toBe(
    "at least 500 ms for 999 of 1,000, of 2000 renewals",
  );
});

it.each([
  ["longest renewal", 4, { count: 99, p99Ms: 4 }, null],
  ["p99 renewal", 4, { count: 100, p99Ms: 4 }, null],
  ["p99 renewal", 4, { count: 100, p99Ms: 4 }, { count: 5, p99Ms: 3 }],
  ["longest renewal", 5, { count: 100, p99Ms: 4 }, { count: 5, p99Ms: 5 }],
  ["p99 renewal", 5, { count: 5, p99Ms: 4 }, { count: 100, p99Ms: 5 }],
])("calls a %s of %d ms by its name", (what, renewalMs, measured, inProduction) => {
  expect(decisiveRenewal(measured, inProduction)).toEqual({ what, renewalMs });
});

const BOUNDS = { minMs: 2_000, maxMs: 3_600_000, stepMs: 1 };

it.each([
  [300, "wrong", "refused by this store: use one from 2.0s to 60m"],
  [1_999, "wrong", "refused by this store: use one from 2.0s to 60m"],
  [2_000, "fine", null],
  [3_600_000, "fine", null],
  [3_600_001, "wrong", "refused by this store: use one from 2.0s to 60m"],
])("judges a TTL of %d ms by what the store grants: %s", (ttlMs, verdict, remedy) => {
  expect(judgeTtl(TTL, ttlMs, BOUNDS)).toMatchObject([{ what: "--ttl", verdict, remedy }]);
});

it("knows what the library grants of no store", () => {
  const bounds = { ...BOUNDS, minMs: 1 };
  const remedy = expect.stringContaining("from 100ms to 60m");
  expect(judgeTtl(TTL, 99, bounds)).toMatchObject([{ verdict: "wrong", remedy }]);
  expect(judgeTtl(TTL, 100, bounds)).toMatchObject([{ verdict: "doubtful" }]);
});
