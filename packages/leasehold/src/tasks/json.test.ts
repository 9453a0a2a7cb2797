import { expect, it, test } from "vitest";
import { toJson } from "./json.js";

class Money {
  constructor(readonly cents: number) {}
  format(): string {
    return `${this.cents / 100}`;
  }
}

test.each<[string, unknown, string]>([
  ["a Map", { prices: new Map([["a", 1]]) }, "data.prices"],
  ["a Set", [new Set([1])], "data.0"],
  ["NaN", { items: [{ price: 1 }, { price: Number.NaN }] }, "data.items.1.price"],
  ["Infinity", Number.POSITIVE_INFINITY, "data"],
  ["a function", { onDone: () => {} }, "data.onDone"],
  ["a symbol", { kind: Symbol("kind") }, "data.kind"],
  ["a bigint", { id: 10n }, "data.id"],
  ["undefined in an array", [1, undefined], "data.1"],
  ["a hole in an array", Array(2), "data.0"],
  ["an Error", { cause: Object.assign(new Error("x"), { code: "E" }) }, "data.cause"],
  ["a RegExp", { pattern: /x/ }, "data.pattern"],
  ["a Uint8Array", { bytes: new Uint8Array([1]) }, "data.bytes"],
  ["a Promise", { later: Promise.resolve(1) }, "data.later"],
  ["an invalid Date", { at: [new Date(Number.NaN)] }, "data.at.0"],
  ["a key that is a symbol", { by: { [Symbol("id")]: 1 } }, "data.by.Symbol(id)"],
  ["a symbol at an array", [Object.assign([1], { [Symbol("id")]: 1 })], "data.0.Symbol(id)"],
  [
    "a named property of an array",
    { list: Object.assign([1, 2], { total: 3 }) },
    "data.list.total",
  ],
  ["what toJSON returns", { at: { toJSON: () => Number.NaN } }, "data.at"],
])("refuses %s, and names its path", (_, value, path) => {
  expect(() => toJson("data", value)).toThrow(
    expect.objectContaining({ code: "INVALID_OPTION", path }),
  );
});

const thrower = () => {
  throw new Error("the connection is closed");
};
const getter = (name: string) =>
  Object.defineProperty({ a: 1 }, name, { get: thrower, enumerable: true });

it.each<[string, () => unknown, string]>([
  ["a getter that throws", () => ({ user: [getter("name")] }), "data.user.0.name"],
  ["a toJSON that throws", () => ({ at: { toJSON: thrower } }), "data.at"],
  ["a getter below a toJSON", () => ({ at: { toJSON: () => getter("b") } }), "data.at.b"],
  ["a proxy that throws", () => ({ row: new Proxy({}, { ownKeys: thrower }) }), "data.row"],
  ["a toJSON that cannot be read", () => ({ row: getter("toJSON") }), "data.row"],
])("refuses %s, and names its path and the reason", (_, make, path) => {
  expect(() => toJson("data", make())).toThrow(
    expect.objectContaining({
      code: "INVALID_OPTION",
      path,
      message: `${path} cannot be kept as JSON: the connection is closed`,
    }),
  );
});

it("refuses a revoked proxy by its path", () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  expect(() => toJson("data", { row: proxy })).toThrow(
    expect.objectContaining({ code: "INVALID_OPTION", path: "data.row" }),
  );
});

it("says of which type an object is that has no JSON", () => {
  expect(() => toJson("data", { cause: new Map() })).toThrow("an object of the type Map");
});

it.each([
  [new Error("SMTP 550"), "SMTP 550"],
  [new TypeError("fetch failed", { cause: new Error("reset") }), "fetch failed: reset"],
])("keeps the reason of an Error that is returned instead of thrown: %s", (error, reason) => {
  const message = `output must be a value of JSON, not an Error: throw it, or convert it (${reason})`;
  expect(() => toJson("output", error)).toThrow(message);
});

it("refuses what refers to itself, without an endless recursion", () => {
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;
  expect(() => toJson("data", cycle)).toThrow(expect.objectContaining({ path: "data.self" }));
  const branch: { up?: unknown } = {};
  const tree = { first: { branches: [{}, branch] } };
  branch.up = tree.first;
  expect(() => toJson("output", tree)).toThrow(
    "output.first.branches.1.up is circular, and JSON has no circular values",
  );
});

it.each([1_001, 5_000, 20_000, 200_000])("refuses arrays and objects of %d levels", (levels) => {
  const problem = "output cannot be kept as JSON: it is nested more than 1000 levels deep";
  const nests = [(item: unknown) => [item], (item: unknown) => ({ item })];
  for (const nest of nests) {
    let deep: unknown = 1;
    for (let level = 0; level < levels; level += 1) deep = nest(deep);
    expect(() => toJson("output", deep)).toThrow(
      expect.objectContaining({ path: "output", message: problem }),
    );
  }
});

it("keeps 1,000 levels, and -0 as 0", () => {
  let deep: unknown = -0;
  for (let level = 0; level < 1_000; level += 1) deep = [deep];
  expect(JSON.stringify(toJson("data", deep))).toBe(`${"[".repeat(1_000)}0${"]".repeat(1_000)}`);
});

it("keeps what JSON carries, and what says itself how it is carried", () => {
  const at = new Date(0);
  const given = { at, money: new Money(5), absent: undefined, empty: {}, none: null, "": [[]] };
  const kept = { at: at.toISOString(), money: { cents: 5 }, empty: {}, none: null, "": [[]] };
  expect(toJson("data", given)).toEqual(kept);
  expect(toJson("data", undefined)).toBe(null);
  expect(toJson("data", Object.create(null))).toEqual({});
  // Like any property that is not enumerable, as of libraries that mark their objects.
  expect(toJson("data", Object.defineProperty({}, Symbol("mark"), { value: 1 }))).toEqual({});
  const match = { pair: ["a", "b"] as const, text: new String("x") };
  expect(toJson("data", match)).toEqual({ pair: ["a", "b"], text: "x" });
});
