import { expect, it } from "vitest";
import { importsSettled, noteImports } from "./imports.js";

it("waits for what is loaded, and not for what an earlier file has begun to load", async () => {
  void import("./broken/never.js");
  await new Promise((resolve) => setTimeout(resolve, 500));
  noteImports();
  let isLoaded = false;
  void import("../worlds/tasks-world.js").then(() => (isLoaded = true));
  await importsSettled();
  expect(isLoaded).toBe(true);
});
