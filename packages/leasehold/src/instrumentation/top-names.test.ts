import fc from "fast-check";
import { expect, it } from "vitest";
import { checkName } from "../lease/index.js";
import { manualClock } from "../testing/index.js";
import { MOST_NAMES, prefixOf, REST, TopNames } from "./top-names.js";

it.each([
  ["orders/7", 1, "orders"],
  ["billing-close:2026-04", 1, "billing-close"],
  ["tenant:1/b", 1, "tenant"],
  ["tenant:1/b", 2, "tenant:1"],
  ["tenant:1/b", 3, "tenant:1/b"],
  ["tenant:1/b", 4, "tenant:1/b"],
  ["nightly-report", 1, "nightly-report"],
  ["/rooted/x", 1, "/rooted"],
  ["", 1, ""],
])("takes of %j with %d segments the prefix %j", (resource, depth, prefix) => {
  expect(prefixOf(resource, depth)).toBe(prefix);
});

const addTimes = (top: TopNames, resource: string, times: number) => {
  for (let n = 0; n < times; n += 1) top.add(resource);
};

it("reports counts, largest first and from the first event, and all the rest under no name", () => {
  const top = new TopNames();
  addTimes(top, "a/1", 3);
  addTimes(top, "b/1", 5);
  addTimes(top, "rare/1", 1);
  addTimes(top, "alone", 4);
  addTimes(top, "", 2);
  addTimes(top, "other/1", 1);
  expect(top.top()).toEqual([
    { name: "b", count: 5 },
    { name: "alone", count: 4 },
    { name: "a", count: 3 },
    { name: "rare", count: 1 },
    { name: "other", count: 1 },
    { name: REST, count: 2 },
  ]);
});

it("never gives the rest a name that a resource can have", () => {
  const top = new TopNames();
  addTimes(top, "other/1", 9);
  for (let n = 0; n < MOST_NAMES; n += 1) addTimes(top, `p${n}/1`, 2);
  const [most, ...others] = top.totals();
  expect(most).toEqual({ name: "other", count: 9 });
  expect(() => checkName("resource", others.at(-1)?.name)).toThrow("must");
});

it("keeps frequent names among any number of rare ones, and never reports too much", () => {
  const names = fc.array(fc.oneof(fc.constant("often"), fc.nat(500).map(String)), {
    minLength: 200,
    maxLength: 2_000,
  });
  fc.assert(
    fc.property(names, (added) => {
      const top = new TopNames();
      const truth = new Map<string, number>();
      for (const name of added) {
        top.add(`${name}/x`);
        truth.set(name, (truth.get(name) ?? 0) + 1);
      }
      const reported = top.top();
      const named = reported.filter(({ name }) => name !== REST);
      expect(named.length).toBeLessThanOrEqual(MOST_NAMES);
      for (const { name, count } of named) {
        expect(count).toBeLessThanOrEqual(truth.get(name) ?? 0);
      }
      expect(reported.reduce((sum, { count }) => sum + count, 0)).toBe(added.length);
      const often = truth.get("often") ?? 0;
      if (often > added.length / 3) {
        expect(named.map(({ name }) => name)).toContain("often");
      }
    }),
    { numRuns: 50 },
  );
});

it("never lets a count fall while its name is kept, nor that of the rest", () => {
  const top = new TopNames();
  let last = new Map<string, number>();
  for (let n = 0; n < 3_000; n += 1) {
    top.add(`${n % 3 === 0 ? "often" : `p${(n * 7_919) % 97}`}/x`);
    const now = new Map(top.totals().map(({ name, count }) => [name, count]));
    for (const name of ["often", REST]) {
      expect(now.get(name) ?? 0).toBeGreaterThanOrEqual(last.get(name) ?? 0);
    }
    last = now;
  }
});

it("reports a hundred new names at once, later one more every 15 minutes, and never too many", async () => {
  const clock = manualClock();
  const top = new TopNames(prefixOf, clock);
  const reported = new Set<string>();
  const addMany = (label: string) => {
    for (let n = 0; n < 500; n += 1) {
      addTimes(top, `${label}${n}/x`, 5);
      for (const { name } of top.top()) reported.add(name);
    }
  };
  addMany("p");
  expect(reported.size).toBe(101);
  await clock.advance(5 * 15 * 60_000);
  addMany("q");
  expect(reported.size).toBe(106);
  for (let day = 0; day < 20; day += 1) {
    await clock.advance(24 * 3_600_000);
    addMany(`day${day}-`);
  }
  expect(reported.size).toBe(1_501);
});

it("reports a new name every 15 minutes however often it is read", async () => {
  const clock = manualClock();
  const top = new TopNames(prefixOf, clock);
  const reported = new Set<string>();
  const read = () => {
    for (const { name } of top.top()) reported.add(name);
  };
  for (let n = 0; n < 200; n += 1) {
    addTimes(top, `p${n}/x`, 5);
    read();
  }
  const before = reported.size;
  addTimes(top, "late/x", 1_000);
  for (let minute = 0; minute < 14; minute += 1) {
    await clock.advance(60_000);
    read();
  }
  expect(reported.size).toBe(before);
  await clock.advance(60_000);
  read();
  expect(reported.has("late")).toBe(true);
});
