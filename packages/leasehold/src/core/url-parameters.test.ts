import { describe, expect, it } from "vitest";
import { checkOneScheme, checkParameters } from "./url-parameters.js";

const OWN = ["schema", "poolSize"];
const problem = (name: string, own: readonly string[] = OWN, passedOn?: readonly string[]) => {
  try {
    checkParameters("postgres", [...own, ...(passedOn ?? []), name], own, passedOn);
  } catch (error) {
    return error as { code: string; path: string; message: string };
  }
  return null;
};

describe("a parameter of a store's URL", () => {
  it("is taken if Leasehold or the driver knows it", () => {
    checkParameters("postgres", [], []);
    checkParameters("postgres", ["schema", "sslmode"], OWN, ["sslmode"]);
  });

  it("is refused by name otherwise, with what Leasehold knows", () => {
    expect(problem("elephant")).toMatchObject({
      code: "INVALID_OPTION",
      path: "url: ?elephant",
      message: expect.stringMatching(
        /is not a parameter of postgres URLs \(known are \?schema and \?poolSize\)$/,
      ),
    });
    expect(problem("elephant", OWN, ["sslmode"])?.message).toMatch(
      /\(known are \?schema and \?poolSize, and those of the driver\)$/,
    );
    expect(problem("elephant", [])?.message).toMatch(/\(there are none\)$/);
  });

  it.each([
    ["shema", "schema"],
    ["schemas", "schema"],
    ["scheme", "schema"],
    ["SCHEMA", "schema"],
    ["poolsize", "poolSize"],
    ["pool_size", "poolSize"],
    ["poolsz", "poolSize"],
    ["sslmod", "sslmode"],
  ])("is refused with the nearest known one: %s for %s", (name, nearest) => {
    const message = problem(name, OWN, ["sslmode"])?.message;
    expect(message).toMatch(new RegExp(`; did you mean \\?${nearest}=$`));
  });

  it.each([
    // As many changes as half of its letters make another word of it, and so do more than three.
    ["sch", "schema", false],
    ["ab", "abc", true],
    ["ab", "cd", false],
    ["a", "b", true],
    ["abcd", "abxy", true],
    ["abcd", "axyz", false],
    ["abcdefgh", "abcdexyz", true],
    ["abcdefgh", "abcdwxyz", false],
    ["kitten", "sitting", true],
    ["sitting", "kitten", true],
    ["abc", "bc", true],
    ["bc", "abc", true],
    ["ca", "abc", false],
  ])("%s is near enough to %s to be meant: %s", (name, known, isNear) => {
    expect(problem(name, [known])?.message.includes("did you mean")).toBe(isNear);
  });
});

describe("the scheme of a store's URL", () => {
  it.each([
    ["http://a:4040,http://b:4040", "http://"],
    ["HTTP://a,  etcd://b", "HTTP://"],
    ["x+y://a:1,b:2,x+y://c:3", "x+y://"],
  ])("is refused twice, without the hosts: %s", (url, scheme) => {
    expect(() => checkOneScheme("source", url)).toThrow(
      expect.objectContaining({
        code: "INVALID_OPTION",
        path: "source",
        message: `source must have its scheme once, before the hosts: ${scheme}host1,host2`,
      }),
    );
  });

  it.each([
    "http://a:4040,b:4040",
    "memory:",
    "a, http://b,http://c",
    "http://a/?next=b,http://c",
    "http://a/#b,http://c",
    "http://a,.http://b",
  ])("is taken once: %s", (url) => {
    expect(() => checkOneScheme("source", url)).not.toThrow();
  });
});
