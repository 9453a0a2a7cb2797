/**
 * JSON Schemas of published kinds: what a schema may contain, and the check of data against it. The validator interprets
 * the schema. It generates no code, so a schema from elsewhere runs none. Its time is not bounded: patterns may backtrack,
 * and references may multiply. A server that checks against the schemas of its tenants sets a limit.
 */
import { dereference, type Schema, type SchemaDraft, Validator } from "@cfworker/json-schema";
import { InvalidOptionError, kindOf } from "../../core/index.js";
import type { Json } from "../values.js";
import { SCHEMA_BYTES } from "./port.js";

/** What is wrong with data. */
export interface SchemaProblem {
  /** The member of the data, such as `lines.0.price`; empty: the data itself. */
  readonly path: string;
  readonly problem: string;
}
/** Returns null for data that matches. */
export type SchemaCheck = (data: Json) => SchemaProblem | null;

/** Deeper schemas could overflow the stack. */
const DEEPEST = 64;
const LONGEST_PATTERN = 1_000;

/**
 * Checks a JSON Schema and returns it as text.
 * @throws InvalidOptionError
 */
export function schemaText(schema: unknown, path = "schema"): string {
  const isSchema = typeof schema === "boolean" || isObject(schema);
  if (!isSchema) {
    throw new InvalidOptionError(path, `must be a JSON Schema, got ${kindOf(schema)}`);
  }
  const text = JSON.stringify(schema);
  if (new TextEncoder().encode(text).length > SCHEMA_BYTES) {
    throw new InvalidOptionError(path, `must have at most ${SCHEMA_BYTES} bytes as JSON`);
  }
  checkNode(JSON.parse(text), [path]);
  const { problem } = compiled(text);
  if (problem) throw new InvalidOptionError(path, problem);
  return text;
}

/**
 * The check of data against a schema, which {@link schemaText} has returned.
 * @throws an error of the validator, if the schema refers to itself without end
 */
export function compileSchema(text: string): SchemaCheck {
  const { validator } = compiled(text);
  return (data) => {
    const { valid, errors } = validator.validate(data);
    if (valid) return null;
    const found = errors.find(({ keyword }) => !CONTAINERS.has(keyword)) ?? errors.at(-1);
    if (!found) return { path: "", problem: "does not match the schema" };
    const path = pathOf(found.instanceLocation);
    return { path, problem: problemOf(found.keyword, found.error) };
  };
}

/** Keywords whose error only says that another one, which follows, has failed. */
const CONTAINERS: ReadonlySet<string> = new Set([
  "$ref",
  "allOf",
  "if",
  "properties",
  "patternProperties",
  "additionalProperties",
  "unevaluatedProperties",
  "propertyNames",
  "dependentSchemas",
  "prefixItems",
  "items",
  "additionalItems",
  "unevaluatedItems",
]);

function problemOf(keyword: string, error: string): string {
  if (keyword === "false") return "is not allowed by the schema";
  const text = error.replace(/\.$/, "");
  const LONGEST = 300;
  const shown = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  return `does not match the schema: ${shown}`;
}

function pathOf(pointer: string): string {
  const steps = pointer.split("/").slice(1);
  return steps
    .map((step) => decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~"))
    .join(".");
}

function compiled(text: string) {
  const schema = JSON.parse(text) as Schema | boolean;
  // The base of references, of which only those within the schema are allowed.
  if (isObject(schema)) Reflect.deleteProperty(schema, "$id");
  const lookup = dereference(schema);
  const refs = Object.values(lookup).flatMap((node) => (isObject(node) ? (node as Schema) : []));
  const missing = refs.find(({ $ref, __absolute_ref__: uri }) => $ref && !(String(uri) in lookup));
  const problem = missing && `refers to "${missing.$ref}", which it does not have`;
  return { validator: new Validator(schema, draftOf(schema)), problem };
}

const DRAFTS: readonly [part: string, draft: SchemaDraft][] = [
  ["draft-04", "4"],
  ["draft-06", "7"],
  ["draft-07", "7"],
  ["2019-09", "2019-09"],
];
function draftOf(schema: Schema | boolean): SchemaDraft {
  const uri = isObject(schema) ? String(Reflect.get(schema, "$schema") ?? "") : "";
  return DRAFTS.find(([part]) => uri.includes(part))?.[1] ?? "2020-12";
}

/** Their values are data, not schemas. */
const VALUES: ReadonlySet<string> = new Set(["const", "enum", "default", "examples", "example"]);
/** References whose target depends on where they are evaluated: the validator does not follow them. */
const DYNAMIC = ["$dynamicRef", "$recursiveRef"];

/** @throws InvalidOptionError for what no published schema may contain */
function checkNode(node: unknown, path: readonly string[]): void {
  const at = path.join(".");
  if (path.length > DEEPEST) throw new InvalidOptionError("schema", "is nested too deeply");
  if (Array.isArray(node)) {
    for (const [index, each] of node.entries()) checkNode(each, [...path, String(index)]);
    return;
  }
  if (!isObject(node)) return;
  const { $ref, pattern, patternProperties } = node;
  if (typeof $ref === "string" && !$ref.startsWith("#")) {
    throw new InvalidOptionError(`${at}.$ref`, 'must begin with "#": no other document is read');
  }
  const dynamic = DYNAMIC.find((name) => typeof node[name] === "string");
  if (dynamic) throw new InvalidOptionError(`${at}.${dynamic}`, "is not supported: use $ref");
  if (path.length > 1 && typeof node["$id"] === "string") {
    throw new InvalidOptionError(`${at}.$id`, "is allowed at the top only: use $defs and $ref");
  }
  if (typeof pattern === "string") checkPattern(pattern, `${at}.pattern`);
  if (isObject(patternProperties)) {
    for (const each of Object.keys(patternProperties))
      checkPattern(each, `${at}.patternProperties`);
  }
  for (const [name, value] of Object.entries(node)) {
    if (!VALUES.has(name)) checkNode(value, [...path, name]);
  }
}

function checkPattern(pattern: string, path: string): void {
  if (pattern.length > LONGEST_PATTERN) {
    throw new InvalidOptionError(path, `must have at most ${LONGEST_PATTERN} characters`);
  }
  try {
    new RegExp(pattern, "u");
  } catch {
    throw new InvalidOptionError(path, "must be a regular expression with the flag u");
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
