/**
 * JSON Schemas of published kinds: what a schema may contain, and the check of data against it. The validator interprets
 * the schema. It generates no code, so a schema from elsewhere runs none. Its time is not bounded: patterns may backtrack,
 * and references may multiply. A server that checks against the schemas of its tenants sets a limit.
 */
import {
  dereference,
  encodePointer,
  ignoredKeyword,
  type Schema,
  type SchemaDraft,
  schemaArrayKeyword,
  schemaMapKeyword,
  type ValidationResult,
  Validator,
} from "@cfworker/json-schema";
import { InvalidOptionError, kindOf } from "../../core/index.js";
import { reasonOf } from "../../env/index.js";
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
 * The characters of the JSON Pointers of all subschemas together. The validator keeps one for each, and long ones collide
 * in its map: a schema of 46 KB, of which one name had 28 KB, took two minutes and 260 MB.
 */
const MOST_POINTERS = 1_000_000;

/**
 * Checks a JSON Schema and returns it as text.
 * @throws InvalidOptionError
 */
export function schemaText(schema: unknown, path = "schema"): string {
  const isSchema = typeof schema === "boolean" || isObject(schema);
  if (!isSchema) {
    throw new InvalidOptionError(path, `must be a JSON Schema, got ${kindOf(schema)}`);
  }
  const text = textOf(schema, path);
  if (new TextEncoder().encode(text).length > SCHEMA_BYTES) {
    throw new InvalidOptionError(path, `must have at most ${SCHEMA_BYTES} bytes as JSON`);
  }
  checkNode(JSON.parse(text), [path]);
  const { problem } = compiled(text);
  if (problem) throw new InvalidOptionError(path, problem);
  return text;
}

/** @throws InvalidOptionError if it overflows the stack */
function textOf(schema: unknown, path: string): string {
  try {
    return JSON.stringify(schema);
  } catch (error) {
    if (error instanceof RangeError) throw new InvalidOptionError(path, "is nested too deeply");
    throw error;
  }
}

/** The check of data against a schema, which {@link schemaText} has returned. */
export function compileSchema(text: string): SchemaCheck {
  const { validator } = compiled(text);
  return (data) => {
    const result = resultOf(() => validator.validate(data));
    if (typeof result === "string") return { path: "", problem: `cannot be checked: ${result}` };
    const { valid, errors } = result;
    if (valid) return null;
    const found = errors.find(({ keyword }) => !CONTAINERS.has(keyword)) ?? errors.at(-1);
    if (!found) return { path: "", problem: "does not match the schema" };
    const path = pathOf(found.instanceLocation);
    return { path, problem: problemOf(found.keyword, found.error) };
  };
}

/** What the validator finds, or why it throws. It overflows the stack where a schema refers to itself without end. */
function resultOf(validate: () => ValidationResult): ValidationResult | string {
  try {
    return validate();
  } catch (error) {
    if (error instanceof RangeError) return "the schema of its kind refers to itself";
    return `the schema of its kind is not valid (${cut(reasonOf(error))}): correct the schema`;
  }
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
  return `does not match the schema: ${cut(error.replace(/\.$/, ""))}`;
}

function cut(text: string): string {
  const LONGEST = 300;
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

function pathOf(pointer: string): string {
  const steps = pointer.split("/").slice(1);
  return steps
    .map((step) => decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~"))
    .join(".");
}

function compiled(text: string): {
  readonly validator: Validator;
  readonly problem?: string | undefined;
} {
  const schema = JSON.parse(text) as Schema | boolean;
  if (prepare(schema) > MOST_POINTERS) {
    throw new InvalidOptionError("schema", "has too many members below long names: shorten them");
  }
  const lookup = dereference(schema);
  const nodes = Object.values(lookup).filter(isObject);
  const missing = nodes.find(
    // The validator has put the whole reference beside it.
    (node) => typeof node["$ref"] === "string" && !(String(node["__absolute_ref__"]) in lookup),
  );
  const problem = missing
    ? `refers to "${String(missing["$ref"])}", which it does not have`
    : nodes.map(typeProblem).find((found) => found !== undefined);
  return { validator: new Validator(schema, draftOf(schema)), problem };
}

const TYPES: readonly unknown[] = [
  "array",
  "boolean",
  "integer",
  "null",
  "number",
  "object",
  "string",
];

/** The validator would refuse all data of a type that it does not know. */
function typeProblem({ type }: Readonly<Record<string, unknown>>): string | undefined {
  const types: readonly unknown[] = Array.isArray(type) ? type : [type];
  const wrong = type === undefined ? undefined : types.find((each) => !TYPES.includes(each));
  if (wrong === undefined) return undefined;
  return `has the type ${JSON.stringify(wrong)}: a type is one of ${TYPES.join(", ")}`;
}

/**
 * Removes identifiers, as every reference is one within the schema, and examples, which say nothing of the data. The
 * validator would visit everything below an identifier twice, and so the innermost of 60 for centuries.
 * @returns the characters of all pointers of subschemas, which are found as the validator finds them
 */
function prepare(node: unknown, pointerLength = 0): number {
  if (!isObject(node)) return pointerLength;
  for (const name of ["$id", "id", "example", "examples"]) Reflect.deleteProperty(node, name);
  let length = pointerLength;
  const add = (child: unknown, ...steps: readonly string[]) => {
    const added = steps.reduce((sum, step) => sum + 1 + encodePointer(step).length, 0);
    length += prepare(child, pointerLength + added);
  };
  for (const [keyword, value] of Object.entries(node)) {
    if (ignoredKeyword[keyword]) continue;
    if (Array.isArray(value)) {
      if (!schemaArrayKeyword[keyword]) continue;
      for (const [index, each] of value.entries()) add(each, keyword, String(index));
    } else if (schemaMapKeyword[keyword] && isObject(value)) {
      for (const [name, each] of Object.entries(value)) add(each, keyword, name);
    } else add(value, keyword);
  }
  return length;
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
