import { watch } from "node:fs";
import { it } from "vitest";

it("passes", () => {
  watch(import.meta.dirname);
});
