import { expect, it } from "vitest";
import { compareUtf8 } from "./utf8-order.js";

it("texts are compared as the bytes of UTF-8", () => {
  const texts = [
    "",
    "a",
    "a\u0000",
    "ab",
    "b",
    "\u00e4",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "🔑",
    "🔑a",
  ];
  const byBytes = [...texts].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  expect([...texts].reverse().sort(compareUtf8)).toEqual(byBytes);
  for (const a of texts) expect(compareUtf8(a, a)).toBe(0);
});
