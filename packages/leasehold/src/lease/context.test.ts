import { expect, it } from "vitest";
import { tracked } from "./context.js";

it("a promise is tracked until it settles, either way", async () => {
  const set = new Set<Promise<unknown>>();
  const right = tracked(set, Promise.resolve(7));
  const wrong = tracked(set, Promise.reject(new Error("no")));
  expect(set.size).toBe(2);
  expect(await right).toBe(7);
  await expect(wrong).rejects.toThrow("no");
  expect(set.size).toBe(0);
});
