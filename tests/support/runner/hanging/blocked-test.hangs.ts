import { describe, it } from "vitest";

describe("a group", () => {
  it("ends", () => {});
  it("blocks its thread", () => {
    for (;;);
  });
});
