import { it } from "vitest";

it("passes", () => {
  setInterval(() => {}, 1_000);
});
