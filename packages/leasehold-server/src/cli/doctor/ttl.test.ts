import { expect, it } from "vitest";
import { adviseTtl, summaryOf } from "./ttl.js";

const ANY = { minMs: 100, maxMs: 3_600_000 };

it("computes percentiles by nearest rank", () => {
  const samples = Array.from({ length: 200 }, (_, index) => 200 - index);
  expect(summaryOf(samples)).toEqual({ count: 200, p50Ms: 100, p99Ms: 198, maxMs: 200 });
  expect(summaryOf([1.006])).toEqual({ count: 1, p50Ms: 1.01, p99Ms: 1.01, maxMs: 1.01 });
});

it.each([
  // Fast and steady: the shortest recommended TTL.
  [1, 2, 14, 1_000],
  // Only the sum of both counts.
  [500, 100, 617, 2_000],
  [100, 500, 617, 2_000],
  [3_000, 2_000, 5_061, 20_000],
])("pause %d, renewal %d: more than %d, better %d", (pauseMs, renewalMs, leastMs, advisedMs) => {
  const advice = adviseTtl(pauseMs, renewalMs, ANY);
  expect(advice).toMatchObject({ leastMs, advisedMs });
  expect(advice.leastMs).toBeGreaterThan(pauseMs + renewalMs + advice.marginMs);
});

it("recommends no less than the rule of the documentation, where renewals are slow", () => {
  const advice = adviseTtl(1, 1_610, ANY);
  expect(advice).toMatchObject({ leastMs: 1_638, ruleMs: 5_202, advisedMs: 10_000 });
});

it("recommends only a TTL that the store grants", () => {
  expect(adviseTtl(1, 1, { minMs: 5_000, maxMs: 60_000 }).advisedMs).toBe(5_000);
  expect(adviseTtl(9_000, 9_000, { minMs: 100, maxMs: 30_000 }).advisedMs).toBe(30_000);
});
