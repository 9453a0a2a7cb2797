import fc from "fast-check";
import { expect, test } from "vitest";
import { fromWireLeaseId, toWireLeaseId } from "./lease-ids.js";

const ID = "0123456789abcdef00112233445566778899aabbccddeeff";

test("a lease id finds its resource again", () => {
  const resource = fc.string({ unit: "grapheme", minLength: 1, maxLength: 60 });
  const hex = fc.uint8Array({ minLength: 24, maxLength: 24 }).map((bytes) => {
    return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  });
  fc.assert(
    fc.property(resource, hex, (resource, leaseId) => {
      const text = toWireLeaseId(resource, leaseId);
      expect(text).toMatch(/^[A-Za-z0-9_-]+\.[0-9a-f]{48}$/);
      expect(fromWireLeaseId(text)).toEqual({ resource, leaseId });
    }),
  );
  for (const resource of ["\ufeffbom", "a/b?c#d", "é".repeat(128), "🔑".repeat(64), "\u0001"]) {
    expect(fromWireLeaseId(toWireLeaseId(resource, ID))).toEqual({ resource, leaseId: ID });
  }
});

test("one grant has one spelling", () => {
  for (const text of [
    "",
    ".",
    ID,
    `.${ID}`,
    `b3JkZXJz.${ID.toUpperCase()}`,
    `b3JkZXJz.${ID}0`,
    // The length of lease ids in earlier versions, and of grant ids.
    `b3JkZXJz.${ID.slice(16)}`,
    `b3JkZXJz.${ID.slice(0, 16)}`,
    ` b3JkZXJz.${ID}`,
    // Padding, the other base64 alphabet, unused bits, bytes that are not UTF-8.
    `cg==.${ID}`,
    `+++-.${ID}`,
    `ch.${ID}`,
    `_w.${ID}`,
    `a.${ID}`,
    `b3JkZXJz.${ID}\n`,
  ]) {
    expect(fromWireLeaseId(text), JSON.stringify(text)).toBe(null);
  }
});
