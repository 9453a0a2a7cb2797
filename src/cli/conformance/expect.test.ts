import { it, expect as vitest } from "vitest";
import type { Expect } from "../../testing/index.js";
import { expect } from "./expect.js";

const VALUES: readonly unknown[] = [
  ...[null, undefined, true, 0, -0, 1, 2.5, Number.NaN, "", "a", "ab", [], {}],
  ...[[1], [1, 2], [undefined], [{ a: 1 }], [{ a: 1, b: 2 }], [{ a: 1 }, { a: 2 }]],
  ...[
    { a: 1 },
    { a: undefined },
    { a: 1, b: undefined },
    { a: { b: [1] } },
    { a: { b: [1], c: 2 } },
  ],
  ...[{ a: [] }, { a: {} }, { length: 1 }, { 0: 1 }],
];
const ORDERS = [
  "toBeGreaterThan",
  "toBeGreaterThanOrEqual",
  "toBeLessThan",
  "toBeLessThanOrEqual",
] as const;

const passes = (judge: () => void): boolean => {
  try {
    judge();
    return true;
  } catch {
    return false;
  }
};

/** Both judge the same, and the negation is the contrary of it. */
const agree = (judge: (one: Expect) => void, what: unknown[]) =>
  vitest({ what, pass: passes(() => judge(expect)) }).toEqual({
    what,
    pass: passes(() => judge(vitest)),
  });

it.each(["toBe", "toEqual", "toContain"] as const)("judges %s as vitest does", (name) => {
  for (const actual of VALUES) {
    if (name === "toContain" && typeof actual !== "string" && !Array.isArray(actual)) continue;
    for (const expected of VALUES) {
      if (typeof actual === "string" && name === "toContain" && typeof expected !== "string")
        continue;
      agree((judge) => judge(actual)[name](expected), [name, actual, expected]);
      agree((judge) => judge(actual).not[name](expected), ["not", name, actual, expected]);
    }
  }
});

it("judges toMatchObject as vitest does", () => {
  for (const actual of VALUES) {
    for (const expected of VALUES) {
      // There the shape of an object also fits lists, and an empty one anything: not here.
      if (typeof expected !== "object" || expected === null) continue;
      if (Array.isArray(actual) !== Array.isArray(expected)) continue;
      if (/\{\}/.test(JSON.stringify(expected))) continue;
      agree((judge) => judge(actual).toMatchObject(expected), [actual, expected]);
    }
  }
});

it("judges numbers, lengths and patterns as vitest does", () => {
  for (const actual of VALUES) {
    for (const name of ORDERS) {
      for (const expected of [-1, 0, 1, 2.5, 3]) {
        agree((judge) => judge(actual)[name](expected), [name, actual, expected]);
      }
    }
    for (const length of [0, 1, 2]) agree((judge) => judge(actual).toHaveLength(length), [actual]);
    agree((judge) => judge(actual).toMatch(/^a/), [actual]);
  }
});

it("says what differs, and what the suite says of it", () => {
  const said = (judge: () => void): string => {
    try {
      judge();
    } catch (error) {
      return (error as Error).message;
    }
    return "nothing";
  };
  const difference = said(() =>
    expect({ status: "held", more: 1 }).toMatchObject({ status: "acquired" }),
  );
  vitest(difference).toContain("+   status: 'held'");
  vitest(difference).toContain("-   status: 'acquired'");
  vitest(difference).not.toContain("more");
  vitest(said(() => expect(3, "still waiting").toBeLessThan(2))).toBe(
    "still waiting: expected 3 to be < 2",
  );
  vitest(said(() => expect(["a"]).not.toContain("a"))).toBe("expected [ 'a' ] not to be with 'a'");
  vitest(said(() => expect("x").toMatch(/^a/))).toBe("expected 'x' to be like /^a/");
  vitest(said(() => expect([1]).toHaveLength(2))).toBe("expected 1 to be of length 2");
});
