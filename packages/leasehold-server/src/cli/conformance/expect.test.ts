import type { Expect } from "leasehold/testing";
import { it, expect as vitest } from "vitest";
import { differenceIn, expect } from "./expect.js";

const errorOf = (judge: () => void): Error => {
  try {
    judge();
  } catch (error) {
    return error as Error;
  }
  throw new Error("nothing was thrown");
};

it("passes what matches", () => {
  const all: ((one: Expect) => void)[] = [
    (one) => one(Number.NaN).toBe(Number.NaN),
    (one) => one(0).not.toBe(-0),
    (one) => one({ a: undefined }).toEqual({}),
    (one) => one({ a: 1, b: 2 }).toMatchObject({ a: 1 }),
    (one) => one([1]).toContain(1),
    (one) => one("ab").toMatch(/^a/),
    (one) => one([1, 2]).toHaveLength(2),
    (one) => one(2).toBeGreaterThan(1),
    (one) => one(2).toBeGreaterThanOrEqual(2),
    (one) => one(1).toBeLessThan(2),
    (one) => one(2).toBeLessThanOrEqual(2),
  ];
  for (const judge of all) judge(expect);
});

it("shows the difference and the message of the suite", () => {
  const held = errorOf(() =>
    expect({ status: "held", more: 1 }).toMatchObject({ status: "acquired" }),
  );
  vitest(differenceIn(held)).toContain("+   status: 'held'");
  vitest(differenceIn(held)).toContain("-   status: 'acquired'");
  vitest(differenceIn(held)).not.toContain("more");
  const late = errorOf(() => expect(3, "still waiting").toBeLessThan(2));
  vitest(late.message).toBe("still waiting: expected 3 to be less than 2");
  vitest(differenceIn(late)).toEqual([]);
  vitest(errorOf(() => expect("x").toMatch(/^a/)).message).toBe("expected 'x' to match /^a/");
});
