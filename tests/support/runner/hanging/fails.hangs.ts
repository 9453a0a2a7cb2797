import { beforeAll, describe, it } from "vitest";

describe("a group", () => {
  beforeAll(() => {
    throw new Error("no server\nat its port");
  });
  it("never runs", () => {});
});
