import fc from "fast-check";
import { expect, it } from "vitest";
import { MOST_PREFIXES, OTHER, prefixOf, TopPrefixes } from "./top-prefixes.js";

it.each([
  ["orders/7", "orders"],
  ["billing-close:2026-04", "billing-close"],
  ["tenant:1/b", "tenant"],
  ["alone", null],
  ["/rooted", null],
  ["", null],
  [`${"x".repeat(65)}/y`, null],
])("takes of %j the prefix %j", (resource, prefix) => {
  expect(prefixOf(resource)).toBe(prefix);
});

const addTimes = (top: TopPrefixes, resource: string, times: number) => {
  for (let n = 0; n < times; n += 1) top.add(resource);
};

it("reports counts, largest first, and all the rest as other", () => {
  const top = new TopPrefixes();
  addTimes(top, "a/1", 3);
  addTimes(top, "b/1", 5);
  addTimes(top, "rare/1", 2);
  addTimes(top, "alone", 4);
  expect(top.top()).toEqual([
    { prefix: "b", count: 5 },
    { prefix: "a", count: 3 },
    { prefix: OTHER, count: 6 },
  ]);
});

it("keeps frequent prefixes among any number of rare ones, and never reports too much", () => {
  const prefixes = fc.array(fc.oneof(fc.constant("often"), fc.nat(500).map(String)), {
    minLength: 200,
    maxLength: 2_000,
  });
  fc.assert(
    fc.property(prefixes, (added) => {
      const top = new TopPrefixes();
      const truth = new Map<string, number>();
      for (const prefix of added) {
        top.add(`${prefix}/x`);
        truth.set(prefix, (truth.get(prefix) ?? 0) + 1);
      }
      const reported = top.top();
      const named = reported.filter(({ prefix }) => prefix !== OTHER);
      expect(named.length).toBeLessThanOrEqual(MOST_PREFIXES);
      for (const { prefix, count } of named) {
        expect(count).toBeLessThanOrEqual(truth.get(prefix) ?? 0);
      }
      expect(reported.reduce((sum, { count }) => sum + count, 0)).toBe(added.length);
      const often = truth.get("often") ?? 0;
      if (often > added.length / 3) {
        expect(named.map(({ prefix }) => prefix)).toContain("often");
      }
    }),
    { numRuns: 50 },
  );
});

it("never lets a count fall while its prefix is kept, nor other", () => {
  const top = new TopPrefixes();
  let last = new Map<string, number>();
  for (let n = 0; n < 3_000; n += 1) {
    top.add(`${n % 3 === 0 ? "often" : `p${(n * 7_919) % 97}`}/x`);
    const now = new Map(top.totals().map(({ prefix, count }) => [prefix, count]));
    for (const prefix of ["often", OTHER]) {
      expect(now.get(prefix) ?? 0).toBeGreaterThanOrEqual(last.get(prefix) ?? 0);
    }
    last = now;
  }
});

it("reports at most a hundred prefixes in its life", () => {
  const top = new TopPrefixes();
  const reported = new Set<string>();
  for (let n = 0; n < 500; n += 1) {
    addTimes(top, `p${n}/x`, 5);
    for (const { prefix } of top.top()) reported.add(prefix);
  }
  expect(reported.size).toBe(101);
});
