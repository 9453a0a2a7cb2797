import { Command } from "commander";
import { afterEach, expect, it, vi } from "vitest";
import { Time } from "../protocol/fields.js";
import {
  controlWhereOf,
  decimal,
  duration,
  integer,
  keyValue,
  listeningPort,
  moment,
  ownWhereOf,
  positiveDuration,
  rateOf,
  tenantOf,
  whereOf,
  withDatabase,
  withStores,
} from "./options.js";

afterEach(() => vi.unstubAllEnvs());

it.each([
  [integer(1, 10), "10", 10],
  [integer(-5, 10), "-5", -5],
  [decimal(0, 1), ".5", 0.5],
  [decimal(0, 1), "1", 1],
  [duration, "2s", 2_000],
  [listeningPort, "0", 0],
  [listeningPort, "4040", 4040],
  [moment, "2030-01-31T12:00:00Z", new Date("2030-01-31T12:00:00Z")],
  [moment, "2030-01-31T12:00:00+01:00", new Date("2030-01-31T11:00:00Z")],
])("%# reads %s %j", (parse, text, value) => expect(parse(text)).toEqual(value));

it.each([
  [integer(1, 10), ["0", "11", "1.5", "1e1", "", "x", " 1"]],
  [decimal(0, 1), ["-0.1", "1.1", "", "x", "1e-1", "0x1"]],
  [duration, ["2"]],
  [positiveDuration, ["0", "0s"]],
  [moment, ["tomorrow", "12:00", "2030-13-01", "2030-02-31", "2030-02-30T10:00:00Z"]],
  [keyValue, ["x", "=x", ""]],
  [listeningPort, ["-1", "65536", "6000", "10080", "1", "6667", "2049"]],
])("%# refuses %j %j", (parse, texts) => {
  for (const text of texts) expect(() => parse(text), text).toThrow();
});

it.each([
  [duration, "5000000000d", "It must be at most 1000000d."],
  [duration, "1000001d", "It must be at most 1000000d."],
  [duration, `${"9".repeat(400)}d`, "It must be at most 1000000d."],
  [positiveDuration, "24000001h", "It must be at most 1000000d."],
  [rateOf, "100/1000001d", "It must be at most 1000000d."],
  [duration, "0.4ms", "It must be 0 or at least 1ms."],
  [duration, "0.0009s", "It must be 0 or at least 1ms."],
  [positiveDuration, "0.9ms", "It must be 0 or at least 1ms."],
])("%# says of %s %s what it must be", (parse, text, problem) => {
  expect(() => parse(text)).toThrow(problem);
});

it("takes the longest duration, and a whole millisecond", () => {
  expect([duration("1000000d"), duration("1ms")]).toEqual([86_400_000_000_000, 1]);
});

it.each([
  "2030-01-31T12:00Z",
  "2030-01-31T12:00:00.123456-23:59",
  "2030-01-31T12:00:00",
  "2030-01-31T12:00",
  "2030-01-31",
  "2030-01-31T24:00:00Z",
  "2030-01-31T12:00:00z",
  "2030-01-31T12:00:00+0100",
  "2030-01-31T12:00:00+24:00",
  "2030-01-31 12:00:00Z",
  "2030-02-29T12:00:00Z",
  "2032-02-29T12:00:00Z",
  "31 January 2030 12:00 UTC",
])("accepts %s if the HTTP API does", (text) => {
  const time = Time.safeParse(text);
  if (time.success) expect(moment(text).toISOString()).toBe(time.data);
  else expect(() => moment(text)).toThrow(/and a time zone|2030-02-29 is not/);
});

it.each([
  ["2030-02-30T00:00:00Z", "must be a time on a day of the calendar, which 2030-02-30 is not"],
  ["2030-13-01T00:00:00+01:00", "must be a time on a day of the calendar, which 2030-13-01 is not"],
  ["2030-04-31T00:00:00Z", "must be a time on a day of the calendar, which 2030-04-31 is not"],
  ["+010000-01-01T00:00:00Z", "must be a time in the years 1 to 9999"],
  ["-000001-01-01T00:00:00Z", "must be a time in the years 1 to 9999"],
  ["12026-01-01T00:00:00Z", "must be a time in the years 1 to 9999"],
  ["0000-01-01T00:00:00Z", "must be a time in the years 1 to 9999"],
])("says the same of %s as the HTTP API", (text, problem) => {
  expect(Time.safeParse(text).error?.issues[0]?.message).toBe(problem);
  expect(() => moment(text)).toThrow(`It ${problem}`);
});

it("collects key=value, with the value as JSON or text", () => {
  let options: Record<string, unknown> = {};
  for (const text of ["a=1", "b=x=y", 'c={"d":[true]}', "e=", "f=007"]) {
    options = keyValue(text, options);
  }
  expect(options).toEqual({ a: 1, b: "x=y", c: { d: [true] }, e: "", f: "007" });
  expect(() => keyValue("a=2", options)).toThrow("a is given more than once");
  expect(keyValue('id="9007199254740993"', {})).toEqual({ id: "9007199254740993" });
  for (const text of ["id=9007199254740993", 'id={"of":[-9007199254740993]}']) {
    expect(() => keyValue(text, {})).toThrow("where numbers are rounded: send another number");
  }
  for (const text of ["id={'of': 5}", "id=[1", 'id="a']) {
    expect(() => keyValue(text, {})).toThrow("id is not JSON: line 1, column ");
  }
});

it.each([
  [
    "the environment",
    [],
    { STORE: "redis://a", CONTROL: "postgres://b" },
    "redis://a",
    "postgres://b",
  ],
  [
    "both options",
    ["--store", "redis://c", "--control", "postgres://d"],
    { STORE: "redis://a" },
    "redis://c",
    "postgres://d",
  ],
  [
    "only --control",
    ["--control", "postgres://d"],
    { STORE: "redis://a" },
    "redis://a",
    "postgres://d",
  ],
  // A user who passes --store does not expect the tasks in a store of the environment.
  [
    "only --store",
    ["--store", "redis://c"],
    { STORE: "redis://a", CONTROL: "postgres://b" },
    "redis://c",
    undefined,
  ],
])("finds the stores: %s", (_, args, environment, store, control) => {
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(`LEASEHOLD_${name}`, value);
  const command = withStores(new Command()).parse(args, { from: "user" });
  const namespace = undefined;
  const isReading = true;
  const notify = () => {};
  const leases = { store, control, namespace, notify };
  expect(whereOf(command, { notify })).toEqual({ ...leases, isReading });
  const tasks = { ...leases, store: control ?? store, control: undefined };
  expect(controlWhereOf(command, { notify })).toEqual({ ...tasks, isReading });
  expect(whereOf(command, { creates: true, notify })).toEqual(leases);
  expect(controlWhereOf(command, { creates: true, notify })).toEqual(tasks);
});

it.each([
  ["no store", [], /^no store: pass --store URL/],
  ["a store in memory", ["--store", "memory:a"], /leasehold serve --store memory:a/],
  ["tasks in memory", ["--store", "redis://a", "--control", "Memory:b"], /serve --store Memory:b/],
])("refuses %s", (_, args, message) => {
  const command = withStores(new Command()).parse(args, { from: "user" });
  expect(() => whereOf(command)).toThrow(message);
  expect(() => controlWhereOf(command)).toThrow(message);
});

it("needs no store of leases where the tasks have one of their own", () => {
  const command = withStores(new Command()).parse(["--control", "postgres://d"], { from: "user" });
  expect(controlWhereOf(command)).toMatchObject({ store: "postgres://d" });
  expect(() => whereOf(command)).toThrow("no store");
});

it("keeps a store in memory where no other process needs it", () => {
  const command = withDatabase(new Command(), "memory:own").parse([], { from: "user" });
  expect(ownWhereOf(command)).toMatchObject({ store: "memory:own" });
});

it.each([
  ["as typed", ["--namespace", "a"], {}, "a"],
  ["of the environment", [], { LEASEHOLD_NAMESPACE: "b" }, "b"],
  ["of the server's key", [], {}, "served"],
])("finds the tenant: %s", (_, args, environment, tenant) => {
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  const command = withStores(new Command()).parse(args, { from: "user" });
  expect(tenantOf(command, { namespace: tenant })).toBe(tenant);
  expect(tenantOf(command, {})).toBe(tenant === "served" ? "default" : tenant);
  // Each call would be refused.
  const other = () => tenantOf(command, { namespace: "other" });
  if (tenant === "served") expect(other()).toBe("other");
  else expect(other).toThrow(`namespace must be "other"`);
});
