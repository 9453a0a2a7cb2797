import { expect, it } from "vitest";
import { zip } from "./index.js";

it("pairs two lists of one length, holes and all, and refuses others", () => {
  expect([...zip([1, 2], ["a", undefined])]).toEqual([
    [1, "a"],
    [2, undefined],
  ]);
  expect(() => [...zip([1], [])]).toThrow("both lists have the same length");
});
