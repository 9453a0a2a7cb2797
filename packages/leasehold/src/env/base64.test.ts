import fc from "fast-check";
import { expect, it } from "vitest";
import { fromBase64, toBase64 } from "./base64.js";

it("encodes any text as the base64 of its UTF-8", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      expect(toBase64(text)).toBe(Buffer.from(text).toString("base64"));
      expect(fromBase64(toBase64(text))).toBe(text);
    }),
  );
});
