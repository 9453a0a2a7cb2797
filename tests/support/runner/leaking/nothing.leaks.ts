import { afterAll, it } from "vitest";

const timer = setInterval(() => {}, 1_000);
afterAll(() => clearInterval(timer));

it("passes", () => {
  setTimeout(() => {}, 300);
});
