import { Command } from "commander";
import { afterEach, expect, it, vi } from "vitest";
import {
  decimal,
  duration,
  integer,
  keyValue,
  moment,
  tasksUrl,
  whereOf,
  withStores,
} from "./options.js";

afterEach(() => vi.unstubAllEnvs());

it.each([
  [integer(1, 10), "10", 10],
  [integer(-5, 10), "-5", -5],
  [decimal(0, 1), ".5", 0.5],
  [decimal(0, 1), "1", 1],
  [duration, "2s", 2_000],
  [moment, "2030-01-31T12:00:00Z", new Date("2030-01-31T12:00:00Z")],
])("%# reads %s %j", (parse, text, value) => expect(parse(text)).toEqual(value));

it.each([
  [integer(1, 10), ["0", "11", "1.5", "1e1", "", "x", " 1"]],
  [decimal(0, 1), ["-0.1", "1.1", "", "x", "1e-1", "0x1"]],
  [duration, ["2"]],
  [moment, ["tomorrow", "12:00", "2030-13-01"]],
  [keyValue, ["x", "=x", ""]],
])("%# refuses %j %j", (parse, texts) => {
  for (const text of texts) expect(() => parse(text), text).toThrow();
});

it("collects key=value, with the value as JSON or text", () => {
  let options: Record<string, unknown> = {};
  for (const text of ["a=1", "b=x=y", 'c={"d":[true]}', "e=", "a=007"]) {
    options = keyValue(text, options);
  }
  expect(options).toEqual({ a: "007", b: "x=y", c: { d: [true] }, e: "" });
});

it.each([
  ["neither", [], {}, "pglite:.leasehold", undefined],
  ["the environment", [], { STORE: "memory:a", CONTROL: "memory:b" }, "memory:a", "memory:b"],
  [
    "both options",
    ["--store", "memory:c", "--control", "memory:d"],
    { STORE: "memory:a" },
    "memory:c",
    "memory:d",
  ],
  ["only --control", ["--control", "memory:d"], { STORE: "memory:a" }, "memory:a", "memory:d"],
  // A user who passes --store does not expect the tasks in a store of the environment.
  [
    "only --store",
    ["--store", "memory:c"],
    { STORE: "memory:a", CONTROL: "memory:b" },
    "memory:c",
    undefined,
  ],
])("finds the stores: %s", (_, args, environment, store, control) => {
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(`LEASEHOLD_${name}`, value);
  const command = withStores(new Command()).parse(args, { from: "user" });
  expect(whereOf(command)).toEqual({ store, control });
  expect(tasksUrl(command)).toBe(control ?? store);
});
