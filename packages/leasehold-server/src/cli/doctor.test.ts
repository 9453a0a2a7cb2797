import { expect, it } from "vitest";
import { decisiveRenewal, judgeLeft } from "./doctor.js";

const TTL = { pauseMs: 1, renewalMs: 1, marginMs: 10, leastMs: 12, advisedMs: 1_000 };
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
