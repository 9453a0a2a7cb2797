/** The options of serve for leases that no single operator may end. */
import { Command } from "commander";
import type { Control } from "leasehold/internal";
import { expect, test } from "vitest";
import { type TwoPersonFlags, twoPersonOf, withTwoPerson } from "./two-person.js";

const STORES = { control: {} as Control };

function parse(args: readonly string[], stores = STORES, auth: "keys" | "ifAny" = "keys") {
  const command = withTwoPerson(
    new Command("serve").exitOverride().configureOutput({ writeErr() {} }),
  );
  command.parse(args, { from: "user" });
  return twoPersonOf(command.opts<TwoPersonFlags>(), stores, { auth });
}

test("without the option, no lease needs two operators", () => {
  expect(parse([])).toBeUndefined();
});

test("a tenant has its own prefixes and those of all tenants", () => {
  const option = "--two-person-revoke";
  const given = [option, "*=pay/", option, "shop=stock/", option, "shop=a=b"];
  const options = parse([...given, "--two-person-within", "30m"]);
  const { prefixes, confirmWithinMs } = options ?? {};
  if (typeof prefixes !== "function") throw new Error("no function");
  expect(prefixes("shop")).toEqual(["pay/", "stock/", "a=b"]);
  expect(prefixes("other")).toEqual(["pay/"]);
  expect(confirmWithinMs).toBe(1_800_000);
});

test.each([
  [["--two-person-revoke", "pay/"], /must be tenant=prefix, or \*=prefix for all tenants/],
  [["--two-person-revoke", "=pay/"], /must be tenant=prefix/],
  [["--two-person-revoke", "*=task:"], /leases on tasks are kept with the tasks/],
  [["--two-person-within", "1h"], /--two-person-within needs --two-person-revoke/],
  [["--two-person-revoke", "*=a", "--two-person-within", "59s"], /from 1m to 24h/],
  [["--two-person-revoke", "*=a", "--two-person-within", "25h"], /from 1m to 24h/],
])("refuses %j", (args, message) => {
  expect(() => parse(args)).toThrow(message);
});

test("the server needs an audit, and keys", () => {
  const given = ["--two-person-revoke", "*=pay/"];
  expect(() => parse(given, {} as typeof STORES)).toThrow(/no audit.*--control/);
  expect(() => parse(given, STORES, "ifAny")).toThrow(/needs --require-keys or --oidc-issuer/);
});
