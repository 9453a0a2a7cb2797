import { describe, expect, it } from "vitest";
import { endOfPrefix } from "./keys.js";

describe("the end of a prefix", () => {
  it("is the first text after all texts with the prefix", () => {
    expect(endOfPrefix("")).toBeNull();
    expect(endOfPrefix("a")).toBe("b");
    expect(endOfPrefix("a%_*")).toBe("a%_+");
    expect(endOfPrefix("a\u{10ffff}")).toBe("b");
    expect(endOfPrefix("\u{10ffff}\u{10ffff}")).toBeNull();
    expect(endOfPrefix("\ud7ff")).toBe("\ue000");
    expect(endOfPrefix("x\uffff")).toBe("x\u{10000}");
    expect(endOfPrefix("🙂")).toBe("🙃");
  });
});
