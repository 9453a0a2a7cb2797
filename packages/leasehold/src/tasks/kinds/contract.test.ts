/** What a schema says of data: of a library, by the convention of Standard Schema, or a JSON Schema. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { expect, it } from "vitest";
import { schemaOf } from "./contract.js";

type Issue = StandardSchemaV1.Issue;
const standard = (result: unknown, more: object = {}) =>
  ({
    "~standard": { version: 1, vendor: "own", validate: () => result, ...more },
  }) as unknown as StandardSchemaV1;
const refusedWith = (...issues: Issue[]) => schemaOf(standard({ issues }), "invoice").validate({});

it.each<[string, Issue[], string, string]>([
  ["the data", [{ message: "is odd" }], "data", "is odd"],
  ["a member", [{ message: "is odd", path: ["lines", 0] }], "data.lines.0", "is odd"],
  ["a member by its segments", [{ message: "is odd", path: [{ key: "a" }] }], "data.a", "is odd"],
  ["the first of several", [{ message: "1", path: ["a"] }, { message: "2" }], "data.a", "1"],
  ["the data, of an issue without words", [{} as Issue], "data", "is invalid"],
  ["the data, of no issue", [], "data", "is invalid"],
])("names %s that a library's schema refuses", async (_, issues, path, problem) => {
  await expect(refusedWith(...issues)).rejects.toMatchObject({
    code: "INVALID_OPTION",
    path,
    message: expect.stringContaining(problem) as string,
  });
});

it("gives what a library's schema makes of the data", async () => {
  expect(await schemaOf(standard({ value: 7 }), "invoice").validate("7")).toBe(7);
});

it.each<[unknown, string]>([
  [false, "false"],
  [true, "true"],
  ["ok", '"ok"'],
  [{}, "{}"],
  [undefined, "undefined"],
  [null, "null"],
  [{ issues: "odd" }, '{"issues":"odd"}'],
  [Promise.resolve(7), "7"],
])("refuses a library's schema that returns neither value nor issues: %o", async (result, text) => {
  const schema = schemaOf(standard(result), "invoice");
  await expect(schema.validate({})).rejects.toMatchObject({
    code: "INVALID_OPTION",
    path: "schema",
    message: `schema of "invoice" is no Standard Schema: its validate returned ${text}, and must return { value } or { issues }`,
  });
});

it("takes undefined for what a library's schema makes of the data, if it says so", async () => {
  const result = { value: undefined, issues: undefined };
  expect(await schemaOf(standard(result), "invoice").validate(null)).toBe(undefined);
});

it("checks data by a JSON Schema, names the member, and gives the data as it is", async () => {
  const schema = schemaOf(
    { type: "object", properties: { cents: { type: "integer" } } },
    "invoice",
  );
  const data = { cents: 1 };
  expect(await schema.validate(data)).toBe(data);
  await expect(schema.validate({ cents: "1" })).rejects.toMatchObject({ path: "data.cents" });
  await expect(schema.validate(1)).rejects.toMatchObject({ path: "data" });
});

it.each([[null], [[]], ["schema"], [undefined]])("refuses %j as a schema", (schema) => {
  const wrong = expect.objectContaining({ code: "INVALID_OPTION", path: "schema" });
  expect(() => schemaOf(schema as never, "invoice")).toThrow(wrong);
});
