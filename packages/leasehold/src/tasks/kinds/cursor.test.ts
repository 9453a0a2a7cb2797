import { expect, it } from "vitest";
import { kindCursor, placeOfCursor } from "./cursor.js";

it("leads back to the version that it was made of, whatever the kind is called", () => {
  for (const place of [
    { kind: "invoice", version: 1 },
    { kind: "a:1", version: 65_535 },
    { kind: "two\nlines", version: 12 },
  ]) {
    expect(placeOfCursor(kindCursor(place))).toEqual(place);
  }
});

it("comes before all kinds if there is none", () => {
  expect(placeOfCursor(undefined)).toEqual({ kind: "", version: 0 });
});

it.each(["", "invoice", "1:", ":invoice", "x1:invoice", "one:invoice", "123456:invoice"])(
  "is refused if no page has given it: %j",
  (cursor) => {
    const wrong = expect.objectContaining({ code: "INVALID_OPTION", path: "cursor" });
    expect(() => placeOfCursor(cursor)).toThrow(wrong);
  },
);
