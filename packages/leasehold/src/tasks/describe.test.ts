import { expect, it } from "vitest";
import { describe } from "./describe.js";

it("says what was thrown, whatever it was, in bounded length", () => {
  const error = new Error("broken");
  expect(describe(error)).toBe(error.stack);
  expect(describe("text")).toBe("text");
  expect(describe(undefined)).toBe("undefined");
  expect(describe(Symbol("s"))).toBe("Symbol(s)");
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  const throwing = {
    toString() {
      throw new Error("no");
    },
  };
  const odd = Object.assign(new Error("x"), { stack: Object.create(null) as string });
  for (const strange of [Object.create(null), proxy, throwing, odd]) {
    expect(describe(strange)).toMatch(/cannot be shown/);
  }
  expect(describe("x".repeat(1_000_000))).toHaveLength(64 * 1024);
});
