import { describe, expect, it } from "vitest";
import {
  checkExpanded,
  checkOneScheme,
  filePath,
  oneOf,
  type ParameterTable,
  readParameters,
  wholeNumber,
} from "./url-parameters.js";

const OWN = ["schema", "poolSize"];
const tableOf = (names: readonly string[]): ParameterTable =>
  Object.fromEntries(names.map((name) => [name, () => null]));
const problem = (name: string, own: readonly string[] = OWN, passedOn: readonly string[] = []) => {
  try {
    const query = [...own, ...passedOn, name].map((each) => `${each}=1`).join("&");
    readParameters("postgres", query, tableOf(own), tableOf(passedOn));
  } catch (error) {
    return error as { code: string; path: string; message: string };
  }
  return null;
};

describe("a parameter of a store's URL", () => {
  it("is taken if Leasehold or the driver knows it", () => {
    expect([...readParameters("postgres", "", {})]).toEqual([]);
    const read = readParameters(
      "postgres",
      "schema=a%20b&sslmode",
      tableOf(OWN),
      tableOf(["sslmode"]),
    );
    expect([...read]).toEqual([
      ["schema", "a b"],
      ["sslmode", ""],
    ]);
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

describe("the value of a parameter", () => {
  const known: ParameterTable = {
    file: filePath,
    mode: oneOf("verify-full", "verify-ca"),
    on: oneOf("true", ""),
    size: wholeNumber(10, 1_000),
  };
  const refusal = (query: string) => {
    try {
      readParameters("x:", query, known);
    } catch (error) {
      return error as { code: string; message: string };
    }
    throw new Error("taken");
  };

  it.each(["mode=verify-ca&size=10", "size=1000&file=./%C3%BC%20b", "on", "on=true", "file=a~$b"])(
    "is taken if it is allowed: %s",
    (query) => {
      expect([...readParameters("x:", query, known)].length).toBeGreaterThan(0);
    },
  );

  it.each([
    ["mode=verify-ful", '?mode must be "verify-full" or "verify-ca"'],
    ["mode=", '?mode must be "verify-full" or "verify-ca"'],
    ["on=yes", '?on must be "true"'],
    ["size=9", "?size must be a whole number from 10 to 1000, in digits"],
    ["size=1001", "?size must be a whole number"],
    ["size=16x", "?size must be a whole number"],
    ["size=1e2", "?size must be a whole number"],
    ["size=0x20", "?size must be a whole number"],
    ["size=%2020", "?size must be a whole number"],
    ["size=", "?size must be a whole number"],
    ["size=20&size=20", "?size is given twice: remove one of them"],
    ["file=a&mode=verify-ca&file=b", "?file is given twice"],
    ["file=", "?file must not be empty"],
    ["file=~/ca.pem", "?file must not begin with ~, which only a shell expands"],
    ["file=$HOME/ca.pem", "?file has a variable that was not expanded"],
    ["file=a%20", "?file must not begin or end with a space"],
    ["file=%zz", "must have its parameters percent-encoded"],
    ["file=%ff", "must have its parameters percent-encoded"],
    ["ss@host/app", "has a parameter without a name: percent-encode ? and & of a password"],
    ["constructor=1", "?constructor is not a parameter"],
  ])("is refused by name if it is not: %s", (query, remedy) => {
    const { code, message } = refusal(query);
    expect(code).toBe("INVALID_OPTION");
    expect(message).toContain(remedy);
    expect(message).not.toMatch(/16x|secret|ss@host/);
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

describe("a variable that was not expanded", () => {
  it.each([
    "memory:$NAME",
    `memory:\${NAME}`,
    `memory:app-\${NAME}`,
    "redis://$HOST:6379",
    "http://$HOST:4040",
    "https://key@a:4040,$HOST:4040/base",
    "etcd://etcd-$ZONE.example:2379",
    "kubernetes:$NAMESPACE",
    "postgres://u:p@host/$NAME",
    `postgres://u:p@host/app_\${STAGE}?schema=a`,
    `redis+sentinel://host/\${NAME}`,
  ])("is refused in %s", (url) => {
    expect(() => checkExpanded("source", url)).toThrow(
      expect.objectContaining({
        code: "INVALID_OPTION",
        path: "source",
        message: "source has a variable that was not expanded: write its value",
      }),
    );
  });

  it.each([
    `postgres://$user:pa$$word\${x}@host/app`,
    "postgres://host/%24app",
    "postgres://host/app$1",
    "redis://:$secret@host:6379/0",
    "https://$key@host:4040",
    "redis://host?format=$x",
    "memory:a$b",
    "memory:",
    "pglite:./a/b",
  ])("is not seen in %s", (url) => {
    expect(() => checkExpanded("source", url)).not.toThrow();
  });
});
