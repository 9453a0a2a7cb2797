import { describe, expect, it } from "vitest";
import { parseLeaseSearch, withStates } from "./lease-search.js";

const read = (text: string) => {
  const { query, problems } = parseLeaseSearch(text);
  expect(problems).toEqual([]);
  return query;
};

describe("the lease search", () => {
  it("has a prefix and filters", () => {
    expect(read("")).toEqual({});
    expect(read("  orders/  ")).toEqual({ prefix: "orders/" });
    expect(read("orders/ holder:w:1 state:live >5m <10s is:renewed")).toEqual({
      prefix: "orders/",
      holder: "w:1",
      state: ["live"],
      heldForMs: 300_000,
      expiringWithinMs: 10_000,
      renewedOnly: true,
    });
    expect(read("state:revoked,live")).toEqual({ state: ["live", "revoked"] });
  });

  it("takes quoted text literally", () => {
    expect(read('"a name: with > spaces" holder:"Ann B."')).toEqual({
      prefix: "a name: with > spaces",
      holder: "Ann B.",
    });
    expect(read('"not closed yet')).toEqual({ prefix: "not closed yet" });
    expect(read('"holder:x"')).toEqual({ prefix: "holder:x" });
  });

  it("takes unknown filters as a prefix, because names may contain colons", () => {
    expect(read("task:7")).toEqual({ prefix: "task:7" });
  });

  it.each([
    [">5", "500ms, 30s, 5m"],
    ["<soon", "500ms, 30s, 5m"],
    ["holder:", "a name"],
    ["state:dead", "live, expired, released, revoked"],
    ["state:live,", "live, expired, released, revoked"],
    ["is:new", "renewed"],
    ["one two", "one prefix"],
  ])("explains what is wrong with %s", (text, problem) => {
    expect(parseLeaseSearch(text).problems).toEqual([expect.stringContaining(problem)]);
  });

  it("replaces the states", () => {
    expect(withStates('"a b" state:live >5m', ["expired", "revoked"])).toBe(
      '"a b" >5m state:expired,revoked',
    );
    expect(withStates("state:live", [])).toBe("");
  });
});
