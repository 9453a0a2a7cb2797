import { expect, it } from "vitest";
import { chunked, zip } from "./index.js";

it("pairs two lists of one length, holes and all, and refuses others", () => {
  expect([...zip([1, 2], ["a", undefined])]).toEqual([
    [1, "a"],
    [2, undefined],
  ]);
  expect(() => [...zip([1], [])]).toThrow("both lists have the same length");
});

it("cuts a list into parts of at most a size", () => {
  expect(chunked([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]]);
  expect(chunked([], 2)).toEqual([]);
});
