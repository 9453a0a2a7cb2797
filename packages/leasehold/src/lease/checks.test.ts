/** What is checked of arguments before they reach a store. */
import { describe, expect, it } from "vitest";
import { checkNames, checkSchema, encodeMetadata } from "./names.js";
import {
  checkArray,
  checkFunction,
  checkInteger,
  checkKnown,
  checkMethods,
  checkNumber,
  checkObject,
  checkOptional,
  checkPage,
  checkSignal,
  checkUrl,
} from "./options.js";

const refused = (path: string, message: string | RegExp = /./) =>
  expect.objectContaining({
    code: "INVALID_OPTION",
    path,
    message: typeof message === "string" ? message : expect.stringMatching(message),
  });

describe("a schema", () => {
  it.each(["a", "_a9", "leasehold", "a".repeat(53), "not_pg_", "publicity"])(
    "may be %s",
    (name) => {
      expect(() => checkSchema(name)).not.toThrow();
    },
  );

  it.each([
    [""],
    ["9a"],
    ["A"],
    ["a-b"],
    ["a b"],
    ["-a"],
    ["a".repeat(54)],
    ["public"],
    ["information_schema"],
    ["pg_catalog"],
    [7],
    [undefined],
    [["a"]],
  ])("is not %j", (name) => {
    expect(() => checkSchema(name)).toThrow(refused("schema"));
  });
});

it("names are checked one by one, and there is at least one", () => {
  expect(() => checkNames("queues", ["a", "b"])).not.toThrow();
  for (const none of [[], "a", undefined, { length: 1 }]) {
    expect(() => checkNames("queues", none)).toThrow(
      refused("queues", "queues must be an array of at least one name"),
    );
  }
  expect(() => checkNames("queues", ["a", ""])).toThrow(refused("queues.1"));
  expect(() => checkNames("queues", ["a".repeat(257)])).toThrow(refused("queues.0"));
});

it("metadata may have 4,096 bytes, and no half characters", () => {
  const longest = { a: "x".repeat(4_096 - '{"a":""}'.length) };
  expect(encodeMetadata(longest)).toHaveLength(4_096);
  expect(() => encodeMetadata({ a: `${longest.a}x` })).toThrow(refused("metadata"));
});

describe("the query of a list", () => {
  const check = (query: unknown) =>
    checkPage(query, { prefix: true, states: true, queue: true, kind: true, renewedOnly: true }, [
      "live",
      "expired",
    ]);

  it("may have filters, a limit and a cursor", () => {
    check({});
    check({ limit: 1, cursor: "c", prefix: "p", queue: "q", kind: "k", renewedOnly: true });
    check({ states: ["live", "expired"] });
    check({ states: [], limit: undefined, cursor: undefined });
  });

  it.each<[unknown, string]>([
    [{ limit: 0 }, "limit"],
    [{ limit: 1.5 }, "limit"],
    [{ limit: null }, "limit"],
    [{ cursor: 1 }, "cursor"],
    [{ prefix: 1 }, "prefix"],
    [{ queue: 1 }, "queue"],
    [{ kind: 1 }, "kind"],
    [{ renewedOnly: "yes" }, "renewedOnly"],
    [{ states: "live" }, "states"],
    [{ states: ["live", "gone"] }, "states.1"],
    [{ states: [["live"]] }, "states.0"],
    [{ state: "live" }, "state"],
    [7, "options"],
  ])("%j is refused by name", (query, path) => {
    expect(() => check(query)).toThrow(refused(path));
  });

  it("says which states there are", () => {
    expect(() => check({ states: ["x"] })).toThrow("must be one of live, expired");
  });
});

it.each<[unknown, string]>([
  [undefined, "undefined"],
  [null, "null"],
  ["", "an empty string"],
  ["secret", "a string"],
  [[1], "an array"],
  [7, "the number 7"],
  [true, "the boolean true"],
  [() => {}, "a function: they come before the function"],
])("options must be an object, and %j is said to be %s", (value, kind) => {
  expect(() => checkObject("options", value)).toThrow(
    refused("options", `options must be an object, got ${kind}`),
  );
});

it("a signal in the place of options is reported as such", () => {
  const { signal } = new AbortController();
  expect(() => checkObject("options", signal)).toThrow(refused("options", /pass \{ signal \}/));
  expect(() => checkObject("options", {})).not.toThrow();
});

it("known options are named, and unknown ones refused", () => {
  expect(() => checkKnown({ a: 1 }, { a: true, b: true })).not.toThrow();
  expect(() => checkKnown({ c: 1 }, { a: true, b: true })).toThrow(
    refused("c", /is not an option; known are a, b/),
  );
  expect(() => checkKnown(1, {}, "where")).toThrow(refused("where"));
});

it("arrays, functions and signals are checked", () => {
  checkArray("list", []);
  checkFunction("work", () => {});
  checkSignal(new AbortController().signal);
  expect(() => checkArray("list", {})).toThrow(
    refused("list", "list must be an array, got an object"),
  );
  expect(() => checkFunction("work", "x")).toThrow(refused("work", /got a string/));
  // A call of these runs nothing, and looks like success.
  for (const work of [function* () {}, async function* () {}]) {
    expect(() => checkFunction("work", work)).toThrow(refused("work", /got a generator function/));
  }
  const { proxy, revoke } = Proxy.revocable(() => {}, {});
  revoke();
  checkFunction("work", proxy);
  expect(() => checkSignal({ aborted: false })).toThrow(refused("signal", /got an object/));
});

it("a URL is a URL object or a text that is not empty", () => {
  checkUrl("redis://localhost");
  checkUrl(new URL("redis://localhost"));
  for (const wrong of ["", undefined, 7, {}]) expect(() => checkUrl(wrong)).toThrow(refused("url"));
});

it("an object of a driver must have all the methods that are called", () => {
  const driver = { query() {}, close() {} };
  checkMethods("client", driver, ["query", "close"], "a client");
  for (const wrong of [{ query() {} }, { query() {}, close: true }, null, undefined, "x"]) {
    expect(() => checkMethods("client", wrong, ["query", "close"], "a client")).toThrow(
      refused("client", /^client must be a client, got /),
    );
  }
});

it("optional options are checked if they are given", () => {
  checkOptional("boolean", { a: true, b: undefined }, ["a", "b", "c"]);
  expect(() => checkOptional("boolean", { a: true, b: 1 }, ["a", "b"])).toThrow(
    refused("b", "b must be a boolean, got the number 1"),
  );
});

it("numbers are checked by their range, both ends included", () => {
  for (const right of [1, 2.5, 3]) checkNumber("n", right, 1, 3);
  for (const wrong of [0.9, 3.1, Number.NaN, "2", null]) {
    expect(() => checkNumber("n", wrong, 1, 3)).toThrow(refused("n"));
  }
  expect(() => checkNumber("n", "2", 1, 3)).toThrow('n must be a number, not "2"');
  expect(() => checkNumber("n", null, 1, 3)).toThrow("n must be a number, not null");
  // What else was passed may be secret.
  expect(() => checkNumber("n", { secret: 1 }, 1, 3)).toThrow("not an object");
  expect(() => checkNumber("n", Number.NaN, 1, 3)).toThrow("not NaN");
  checkInteger("n", 2, 1, 3);
  expect(() => checkInteger("n", 2.5, 1, 3)).toThrow("n must be a whole number, not 2.5");
});
