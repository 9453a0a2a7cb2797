import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  contenderOf,
  contenderPrefix,
  inOrder,
  nameOf,
  Paths,
  segmentOf,
  stepsTo,
  waiterPrefix,
  waitersInOrder,
} from "./keys.js";

describe("a name", () => {
  it.each([
    ["plain", "plain"],
    ["with space", "with space"],
    ["ä 日本", "ä 日本"],
    ["a/b", "a%2Fb"],
    ["%2F", "%252F"],
    [".", "%2E"],
    ["..", "%2E."],
    ["...", "..."],
    ["zookeeper", "%7Aookeeper"],
    ["Zookeeper", "Zookeeper"],
    ["\u0001", "%01"],
    ["\u009f", "%C2%9F"],
    ["🔑", "%F0%9F%94%91"],
    ["\ufffd", "%EF%BF%BD"],
  ])("%j is encoded in the path as %j", (name, segment) => {
    expect(segmentOf(name)).toBe(segment);
    expect(nameOf(segment)).toBe(name);
  });

  it("round-trips, is not reserved, and is unique", () => {
    const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(text, text, (a, b) => {
        const segment = segmentOf(a);
        expect(nameOf(segment)).toBe(a);
        expect(segment).not.toMatch(/^(\.|\.\.|zookeeper|%ns|%queue|%sync)$|\/|\0/);
        expect(segmentOf(b) === segment).toBe(a === b);
      }),
    );
  });

  it("is not decoded from a name that is never encoded", () => {
    for (const segment of ["%ns", "%queue", "%sync", "%2f", "%41", "..", "%", "%C3"]) {
      expect(nameOf(segment), segment).toBe(null);
    }
  });
});

it("separates namespaces from each other and from `default`", () => {
  const paths = new Paths("/app");
  expect(paths.lock({ namespace: "default", resource: "r" })).toBe("/app/r");
  expect(paths.lock({ namespace: "a", resource: "b/c" })).toBe("/app/%ns/a/b%2Fc");
  expect(paths.lock({ namespace: "a/b", resource: "c" })).toBe("/app/%ns/a%2Fb/c");
  expect(paths.lock({ namespace: "default", resource: "%ns" })).toBe("/app/%25ns");
  expect(paths.queue({ namespace: "default", resource: "r" })).toBe("/app/%queue/default/r");
  expect(paths.queue({ namespace: "a/b", resource: ".." })).toBe("/app/%queue/a%2Fb/%2E.");
  expect(
    new Paths("").resources("default", ["zookeeper", "%ns", "%queue", "%sync", "a%2Fb"]),
  ).toEqual(["a/b"]);
  expect(stepsTo("/a/b c/d")).toEqual(["/a", "/a/b c", "/a/b c/d"]);
});

describe("contenders", () => {
  it("are named by a UUID that does not reveal the lease id", () => {
    const leaseId = "0123456789abcdef0123456789abcdef";
    const uuid = contenderOf(leaseId);
    expect(uuid).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    expect(uuid).toBe(contenderOf(leaseId));
    expect(contenderPrefix(uuid)).toBe(`_c_${uuid}-lock-`);
    expect(uuid.replaceAll("-", "")).not.toBe(leaseId);
  });

  it("sort by the text after the last `lock-`; other children are ignored", () => {
    expect(
      inOrder([
        "_c_ffff-lock-0000000010",
        "config",
        "_c_0000-lock-0000000011",
        "lock-0000000009",
        "_c_lock-9-lock-0000000002",
        "latch-0000000001",
      ]),
    ).toEqual([
      "_c_lock-9-lock-0000000002",
      "lock-0000000009",
      "_c_ffff-lock-0000000010",
      "_c_0000-lock-0000000011",
    ]);
  });
});

it("sorts waiters by arrival; other children are ignored", () => {
  const first = waiterPrefix(contenderOf("a"));
  const second = waiterPrefix(contenderOf("b"));
  expect(
    waitersInOrder([`${second}0000000010`, "config", `${first}0000000011`, "t-0000000009"]),
  ).toEqual(["t-0000000009", `${second}0000000010`, `${first}0000000011`]);
});
