import { expect, it } from "vitest";
import { Recent } from "./index.js";

it("keeps the latest, and no more than it may", () => {
  const recent = new Recent<number>(4);
  for (let n = 0; n < 100; n += 1) {
    recent.set(`${n}`, n);
    for (const last of [n, n - 1]) if (last >= 0) expect(recent.get(`${last}`)).toBe(last);
    expect([...recent.entries()].length).toBeLessThanOrEqual(4);
  }
  expect(recent.has("90")).toBe(false);
});

it("knows each name once, with its last value, in the order in which they were set", () => {
  const recent = new Recent<number>(4);
  for (const [name, value] of [
    ["a", 1],
    ["b", 2],
    ["c", 3],
    ["a", 4],
  ] as const) {
    recent.set(name, value);
  }
  expect([...recent.entries()]).toEqual([
    ["b", 2],
    ["c", 3],
    ["a", 4],
  ]);
  expect([recent.delete("a"), recent.delete("a"), recent.delete("b")]).toEqual([true, false, true]);
  expect([...recent.entries()]).toEqual([["c", 3]]);
});
