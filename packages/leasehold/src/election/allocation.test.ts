import fc from "fast-check";
import { expect, it } from "vitest";
import { type Allocation, allocate } from "./allocation.js";

const loads = (allocation: Allocation, members: readonly string[]) =>
  members.map((name) => allocation.filter((member) => member === name).length);

it("is even, complete, moves little, and nothing where nothing changed", () => {
  const names = fc.uniqueArray(fc.constantFrom(..."abcdefghijklmnop".split("")), { maxLength: 16 });
  const count = fc.integer({ min: 1, max: 200 });
  fc.assert(
    fc.property(count, fc.array(names, { minLength: 1, maxLength: 12 }), (shards, changes) => {
      let last: Allocation = Array.from({ length: shards }, () => null);
      for (const members of changes) {
        const next = allocate(last, members);
        expect(allocate(next, members)).toEqual(next);
        if (members.length === 0) {
          expect(next.every((member) => member === null)).toBe(true);
        } else {
          const each = loads(next, members);
          expect(each.reduce((sum, one) => sum + one)).toBe(shards);
          expect(Math.max(...each) - Math.min(...each)).toBeLessThanOrEqual(1);
        }
        last = next;
      }
    }),
  );
});

it("moves at most ceil(count / members) shards when one joins or leaves", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 300 }),
      fc.integer({ min: 1, max: 20 }),
      (shards, size) => {
        const members = Array.from({ length: size }, (_, at) => `m${at}`);
        const before = allocate(
          Array.from({ length: shards }, () => null),
          members,
        );
        const moved = (after: Allocation) =>
          after.filter((member, at) => member !== before[at]).length;
        expect(moved(allocate(before, [...members, "new"]))).toBeLessThanOrEqual(
          Math.ceil(shards / (size + 1)),
        );
        if (size > 1) {
          const rest = members.slice(1);
          expect(moved(allocate(before, rest))).toBeLessThanOrEqual(Math.ceil(shards / size));
        }
      },
    ),
  );
});

it("leaves the larger parts to the members that have them", () => {
  const last = ["b", "a", "a", "b", "a"];
  expect(allocate(last, ["b", "a"])).toEqual(last);
  // The larger parts go to those that have most now: c has none, and gets the smaller one.
  expect(allocate(["a", "b", "a", "b", null], ["c", "a", "b"])).toEqual(["a", "b", "a", "b", "c"]);
});

it("gives the shards of members that have gone to others, and none where no member lives", () => {
  expect(allocate(["a", "gone", null, "a"], ["a", "b"])).toEqual(["a", "b", "b", "a"]);
  expect(allocate(["a", null], [])).toEqual([null, null]);
  expect(allocate([], ["a"])).toEqual([]);
});
