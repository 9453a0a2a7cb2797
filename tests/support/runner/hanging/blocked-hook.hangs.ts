import { beforeAll, it } from "vitest";

beforeAll(() => {
  for (;;);
});
it("never begins", () => {});
