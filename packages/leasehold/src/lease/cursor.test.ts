import { expect, it } from "vitest";
import { cursorAfter, resourceOfCursor } from "./cursor.js";

it("a cursor names the resource after which the next page begins", () => {
  for (const resource of ["billing", "after:", "日本語", "a/b:c"]) {
    expect(resourceOfCursor(cursorAfter(resource))).toBe(resource);
  }
});

it.each([["billing"], [""], ["after:"], ["billing-after:"], [`after:${"x".repeat(257)}`]])(
  "a cursor that no page has given is refused: %j",
  (cursor) => {
    expect(() => resourceOfCursor(cursor)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", path: "cursor" }),
    );
  },
);
