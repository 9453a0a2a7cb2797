import { createContext, runInContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { describe as describeValue, isError, propertyOf, reasonOf, shown } from "./describe.js";

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

function unreadable(): Error {
  return Object.defineProperty(new Error("x"), "message", {
    get() {
      throw new Error("no message");
    },
  });
}

function endless(): Error {
  const error = new Error("outer", { cause: new Error("inner") });
  (error.cause as Error).cause = error;
  return error;
}

const thrower = () => {
  throw new Error("no");
};

/** Each with what its reason and its description contain. */
const STRANGE: readonly (readonly [string, unknown, string])[] = [
  ["a revoked proxy", revoked(), "[a value that cannot be read]"],
  ["an Error whose message cannot be read", unreadable(), "[a value that cannot be read]"],
  ["an Error whose cause is a revoked proxy", new Error("x", { cause: revoked() }), "x"],
  [
    "an Error without properties that can be read",
    new Proxy(new Error("x"), { get: thrower }),
    "[a value that cannot be read]",
  ],
  ["a symbol", Symbol("s"), "Symbol(s)"],
  ["an object without a prototype", Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
  ["an object without toString", { toString: undefined, a: 1 }, '"a":1'],
  ["an object whose toString throws", { toString: thrower, a: 1 }, '"a":1'],
  ["an object whose toJSON throws", { toJSON: thrower }, "[a value that cannot be read]"],
  [
    "a property that cannot be read",
    Object.defineProperty({ a: 1 }, "b", { get: thrower, enumerable: true }),
    '"a":1',
  ],
  ["a plain object", { code: 5, detail: { at: [1, 2n] } }, '{"code":5,"detail":{"at":[1,2n]}}'],
  [
    "a plain object with a message",
    { message: "full", status: 507 },
    '{"message":"full","status":507}',
  ],
  ["an endless chain of causes", endless(), "inner"],
  ["an empty string", "", "an empty string"],
  ["an Error without a message", new RangeError(), "RangeError"],
  ["undefined", undefined, "undefined"],
  ["null", null, "null"],
  ["an array", [1, "a"], '[1,"a"]'],
  ["a function", () => 1, "[function]"],
  ["a class", class CardDeclined extends Error {}, "[function CardDeclined]"],
  ["a class of Node", TypeError, "[function TypeError]"],
  ["a URL", new URL("http://localhost/a"), "http://localhost/a"],
  [
    "a Map",
    new Map<unknown, unknown>([
      [1, 2],
      ["a", { b: 3n }],
    ]),
    'Map {1 => 2,"a" => {"b":3n}}',
  ],
  ["an empty Map", new Map(), "Map {}"],
  ["a Set", { in: new Set(["a", [1]]) }, '{"in":Set {"a",[1]}}'],
  ["a RegExp", { in: /a+/g }, '{"in":/a+/g}'],
  ["an invalid Date", new Date(Number.NaN), "Invalid Date"],
  [
    "a Response",
    new Response("body", { status: 429, statusText: "Too Many Requests" }),
    "Response 429 Too Many Requests",
  ],
  ["a Response without a text", { in: new Response(null, { status: 503 }) }, '{"in":Response 503}'],
  ["what only says that it is a Map", { [Symbol.toStringTag]: "Map", a: 1 }, '{"a":1}'],
  [
    "a Response that cannot be read",
    Object.defineProperty(new Response(), "status", { get: thrower }),
    // A server of another test may have replaced the class by one of its own.
    "[Response",
  ],
  ["a Map with a revoked proxy", new Map([[revoked(), 1]]), "[a value that cannot be read] => 1"],
];

describe("any value", () => {
  it.each(STRANGE)("is described: %s", (_name, value, expected) => {
    expect(reasonOf(value)).toContain(expected);
    expect(describeValue(value)).toContain(expected);
    expect(shown(value)).not.toBe("");
    expect(typeof isError(value)).toBe("boolean");
    expect(propertyOf(value, "nothing")).toBeUndefined();
  });

  it("becomes a text of bounded length that every store can keep", () => {
    expect(describeValue("x".repeat(1_000_000))).toHaveLength(64 * 1024);
    expect(describeValue("a\0b\ud800c\u{1f600}")).toBe("a\u{fffd}b\u{fffd}c\u{1f600}");
    // The limit falls between the halves of a pair.
    expect(describeValue(`${"x".repeat(64 * 1024 - 1)}\u{1f600}`).at(-1)).toBe("\u{fffd}");
    expect(reasonOf(new Error("\ude00"))).toBe("\u{fffd}");
  });

  it("is shown with a bounded number of its parts", () => {
    const wide = Array.from({ length: 100_000 }, (_, index) => ({ index }));
    expect(shown(wide).length).toBeLessThan(10_000);
    let deep: unknown = 1;
    for (let depth = 0; depth < 100_000; depth += 1) deep = [deep];
    expect(shown(deep).length).toBeLessThan(10_000);
    expect(shown(new Map(wide.entries())).length).toBeLessThan(10_000);
    expect(shown(new Set(wide)).length).toBeLessThan(10_000);
    expect(shown(new Set(wide)).endsWith(",…}")).toBe(true);
    const own = new Map<unknown, unknown>();
    own.set(own, [own]);
    expect(shown(own)).toBe("Map {[circular] => [[circular]]}");
    const circle: Record<string, unknown> = { a: 1 };
    circle.self = circle;
    expect(shown(circle)).toBe('{"a":1,"self":[circular]}');
  });
});

describe("an error", () => {
  it("is described by its stack, with the message that it has now", () => {
    const error = new TypeError("broken");
    expect(describeValue(error)).toBe(error.stack);
    error.message = "mended";
    expect(describeValue(error)).toMatch(/^TypeError: mended\n {4}at /);
    expect(describeValue(Object.assign(new Error("x"), { stack: Object.create(null) }))).toBe(
      "Error: x",
    );
    class Refused extends Error {}
    expect(describeValue(new Refused(""))).toMatch(/^Refused\n/);
  });

  it("brings its deepest cause", () => {
    const deepest = Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:1"), {
      code: "ECONNREFUSED",
    });
    const error = new TypeError("fetch failed", {
      cause: new Error("no socket", { cause: deepest }),
    });
    expect(reasonOf(error)).toBe("fetch failed: no socket: connect ECONNREFUSED 127.0.0.1:1");
    expect(describeValue(error)).toMatch(
      /caused by: Error: no socket\n[^]*caused by: Error: connect ECONNREFUSED/,
    );
    // Even behind a message that fills the space.
    expect(describeValue(new Error("x".repeat(1_000_000), { cause: deepest }))).toContain(
      "ECONNREFUSED",
    );
  });

  it("does not repeat what its message says of the cause already", () => {
    const cause = new Error("no answer");
    expect(reasonOf(new Error("the store failed: no answer", { cause }))).toBe(
      "the store failed: no answer",
    );
    expect(reasonOf(new Error("", { cause }))).toBe("no answer");
    expect(reasonOf(new Error("no answer", { cause: new Error("no answer: reset") }))).toBe(
      "no answer: reset",
    );
  });

  it("brings its members", () => {
    const error = new AggregateError([new Error("one"), "two", new Error("one")], "all failed");
    expect(reasonOf(error)).toBe("all failed: one; two");
    expect(describeValue(error)).toMatch(
      /AggregateError: all failed[^]*one of its errors: Error: one[^]*: two/,
    );
    // As a host with two addresses that both refuse.
    expect(reasonOf(new AggregateError([new Error("::1"), new Error("127.0.0.1")]))).toBe(
      "::1; 127.0.0.1",
    );
  });

  it("brings both of a SuppressedError: of the disposal, and what came before", () => {
    // As TypeScript makes it where the engine has none.
    const suppressed = (error: unknown, before: unknown, message = "") =>
      Object.assign(new Error(message), {
        name: "SuppressedError",
        error,
        suppressed: before,
      });
    const both = suppressed(new Error("close failed"), new TypeError("work failed"), "suppressed");
    expect(reasonOf(both)).toBe("suppressed: close failed; work failed");
    expect(describeValue(both)).toMatch(
      /SuppressedError: suppressed[^]*one of its errors: Error: close failed[^]*: TypeError: work failed/,
    );
    expect(reasonOf(suppressed("third", suppressed("second", undefined)))).toBe(
      "third; second; undefined",
    );
    const odd = suppressed(1, 2);
    for (const name of ["error", "suppressed"]) {
      Object.defineProperty(odd, name, { get: thrower });
    }
    expect(reasonOf(odd)).toBe("undefined");
    expect(reasonOf(suppressed(both, odd, "x".repeat(5)))).toContain("close failed");
  });

  it("brings a code of Node that the message lacks, but none of another kind", () => {
    const coded = (message: string, code: unknown) => Object.assign(new Error(message), { code });
    expect(reasonOf(coded("socket hang up", "ECONNRESET"))).toBe("socket hang up (ECONNRESET)");
    expect(reasonOf(coded("read ECONNRESET", "ECONNRESET"))).toBe("read ECONNRESET");
    expect(reasonOf(coded("", "ECONNRESET"))).toBe("ECONNRESET");
    expect(reasonOf(coded("duplicate key", "23505"))).toBe("duplicate key");
  });

  it("is one in another realm too", () => {
    const other: unknown = runInContext(
      'new RangeError("far", { cause: new Error("away") })',
      createContext(),
    );
    expect(other instanceof Error).toBe(false);
    expect(isError(other)).toBe(true);
    expect(reasonOf(other)).toBe("far: away");
  });
});
