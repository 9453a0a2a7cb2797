/** What a JSON Schema may contain, and what its check says of data. */
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { compileSchema, type JsonSchema } from "./json-schema.js";

const identified = (depth: number): JsonSchema =>
  depth === 0 ? {} : { id: `n${depth}`, not: identified(depth - 1) };

describe("compileSchema()", () => {
  it.each<[JsonSchema, string]>([
    [{ $ref: "https://example.com/schema.json" }, 'schema.$ref must begin with "#"'],
    [{ properties: { a: { $ref: "other.json#/a" } } }, "schema.properties.a.$ref must begin"],
    [{ $ref: "#/$defs/missing" }, 'schema refers to "#/$defs/missing", which it does not have'],
    [{ $dynamicRef: "#node" }, "schema.$dynamicRef is not supported"],
    [{ items: { $id: "https://example.com/a" } }, "schema.items.$id is allowed at the top only"],
    [{ items: { pattern: "(" } }, "schema.items.pattern must be a regular expression"],
    [{ patternProperties: { "[": true } }, "schema.patternProperties must be a regular"],
    [{ type: "strnig" }, 'schema has the type "strnig": a type is one of array, boolean'],
    [{ properties: { a: { type: ["null", "text"] } } }, 'schema has the type "text"'],
    [{ items: { anyOf: [true, { type: "String" }] } }, 'schema has the type "String"'],
    [{ $defs: { line: { type: 5 } } }, "schema has the type 5"],
  ])("refuses %j", (schema, problem) => {
    expect(() => compileSchema(schema)).toThrow(problem);
  });

  it("takes members, requirements and values that are named type", () => {
    const schema = {
      type: ["object", "null"],
      properties: { type: { type: "string" } },
      dependentRequired: { type: ["a"] },
      default: { type: "strnig" },
    };
    const check = compileSchema(schema);
    expect(check({ type: "b", a: 1 })).toBe(null);
    expect(check({ type: 1, a: 1 })).toMatchObject({ path: "type" });
  });

  it("takes what only looks like a keyword in values", () => {
    const value = { $ref: "https://example.com" };
    const check = compileSchema({ const: value, default: { pattern: "(" } });
    expect(check(value)).toBe(null);
    expect(check({})).not.toBe(null);
  });

  // Each identifier doubles the work of the validator: this would take longer than the tests may.
  it.each<[string, JsonSchema]>([
    ["subschemas", identified(40)],
    ["an example", { example: identified(40) }],
    ["what is no keyword", { unknown: identified(40) }],
  ])("takes identifiers in %s", (_, schema) => {
    expect(compileSchema(schema)({})).toBeDefined();
  });

  it("takes members that are named like identifiers and examples", () => {
    const check = compileSchema({
      properties: { id: { type: "string" }, example: { type: "string" } },
    });
    expect(check({ id: 1 })).toMatchObject({ path: "id" });
    expect(check({ example: 1 })).toMatchObject({ path: "example" });
  });

  it("leaves the schema as it is", () => {
    const schema = { $id: "a", properties: { b: { $ref: "#" } }, example: {} };
    const before = structuredClone(schema);
    compileSchema(schema);
    expect(schema).toEqual(before);
  });
});

describe("the check of data", () => {
  const invoice = compileSchema({
    $id: "https://example.com/invoice.json",
    type: "object",
    required: ["number"],
    properties: {
      number: { type: "string", pattern: "^\\d+$" },
      "a/b~c d": { type: "boolean" },
      lines: { type: "array", items: { $ref: "#/$defs/line" }, maxItems: 2 },
      as: { anyOf: [{ type: "string" }, { type: "null" }] },
    },
    additionalProperties: false,
    $defs: { line: { type: "object", properties: { cents: { type: "integer", minimum: 0 } } } },
  });

  it("passes data that matches", () => {
    expect(invoice({ number: "17", lines: [{ cents: 3 }, {}], as: null })).toBe(null);
  });

  it.each([
    ["text", "", /Expected "object"/],
    [{}, "", /required property "number"/],
    [{ number: "x" }, "number", /pattern/],
    [{ number: "1", lines: [{}, { cents: 0.5 }] }, "lines.1.cents", /Expected "integer"/],
    [{ number: "1", lines: [{}, { cents: -1 }] }, "lines.1.cents", /less than 0/],
    [{ number: "1", lines: [{}, {}, {}] }, "lines", /too many items/],
    [{ number: "1", "a/b~c d": 1 }, "a/b~c d", /Expected "boolean"/],
    [{ number: "1", as: 1 }, "as", /does not match any subschemas/],
    [{ number: "1", extra: 1 }, "extra", /is not allowed/],
  ])("names the member of %j and what was expected", (data, path, problem) => {
    const found = invoice(data);
    expect(found?.path).toBe(path);
    expect(found?.problem).toMatch(problem);
  });

  it.each([
    [{ enum: "a" }, 1, "the schema of its kind is not valid ("],
    [{ required: 1 }, {}, "the schema of its kind is not valid ("],
    [{ $ref: "#" }, 1, "the schema of its kind refers to itself"],
  ])("says why it cannot be made by %j", (schema, data, problem) => {
    const found = compileSchema(schema)(data);
    expect(found).toMatchObject({ path: "" });
    expect(found?.problem).toContain(`cannot be checked: ${problem}`);
  });

  it("shows no more than the beginning of a long problem", () => {
    const found = compileSchema({ required: ["a".repeat(400)] })({});
    expect(found?.problem).toMatch(/^does not match the schema: .{300}…$/);
  });

  it("names what an alternative within a list misses", () => {
    const check = compileSchema({
      allOf: [
        { required: ["a"] },
        { properties: { b: { $ref: "#/allOf/2" } } },
        { type: "string" },
      ],
    });
    expect(check({ a: 1, b: 2 })).not.toBe(null);
    expect(() => compileSchema({ allOf: [{}, { $ref: "other" }] })).toThrow(
      "schema.allOf.1.$ref must",
    );
  });

  it("reads schemas of earlier drafts by their $schema", () => {
    const schema = { items: [{ type: "string" }], additionalItems: false };
    const check = compileSchema({ $schema: "http://json-schema.org/draft-07/schema#", ...schema });
    expect(check(["a"])).toBe(null);
    expect(check(["a", 1])).toMatchObject({ path: "1" });
  });

  it("agrees with the library whose schema it is", () => {
    const schema = z.object({ to: z.email(), lines: z.array(z.object({ n: z.number().min(1) })) });
    const check = compileSchema(schema["~standard"].jsonSchema.input({ target: "draft-2020-12" }));
    for (const data of [
      { to: "ada@example.com", lines: [{ n: 1 }] },
      { to: "ada", lines: [] },
      { to: "ada@example.com", lines: [{ n: 0 }] },
      { to: "ada@example.com" },
    ]) {
      expect(check(data) === null).toBe(schema.safeParse(data).success);
    }
  });

  it("keeps names of an object apart from those of its prototype", () => {
    const check = compileSchema({ type: "object", required: ["constructor"] });
    expect(check({})).toMatchObject({ problem: expect.stringContaining("constructor") as string });
    expect(check(JSON.parse('{"constructor":1,"__proto__":2}'))).toBe(null);
  });
});
