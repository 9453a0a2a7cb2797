/**
 * JSON Schemas of kinds: what a schema may contain, and the check of data against it. The validator interprets the schema.
 * Its time is not bounded: patterns may backtrack, and references may multiply.
 */
import {
  dereference,
  ignoredKeyword,
  type Schema,
  type SchemaDraft,
  schemaArrayKeyword,
  schemaMapKeyword,
  type ValidationResult,
  Validator,
} from "@cfworker/json-schema";
import { reasonOf } from "../../env/index.js";
import { InvalidOptionError } from "../../lease/index.js";
import type { Json } from "../values.js";

/** A JSON Schema: an object of its keywords. */
export type JsonSchema = Readonly<Record<string, unknown>>;
/** What is wrong with data. */
export interface SchemaProblem {
  /** The member of the data, such as `lines.0.price`; empty: the data itself. */
  readonly path: string;
  readonly problem: string;
}
/** Returns null for data that matches. */
export type SchemaCheck = (data: Json) => SchemaProblem | null;

/**
 * Checks a JSON Schema and returns the check of data against it.
 * @throws InvalidOptionError
 */
export function compileSchema(given: JsonSchema): SchemaCheck {
  // The validator and what prepares for it change the schema.
  const schema = JSON.parse(JSON.stringify(given)) as Schema;
  checkNode(schema, ["schema"]);
  const validator = validatorOf(schema);
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

/** @throws InvalidOptionError */
function validatorOf(schema: Schema): Validator {
  prepare(schema);
  const lookup = dereference(schema);
  const nodes = Object.values(lookup).filter(isObject);
  const missing = nodes.find(
    // The validator has put the whole reference beside it.
    (node) => typeof node["$ref"] === "string" && !(String(node["__absolute_ref__"]) in lookup),
  );
  const problem = missing
    ? `refers to "${String(missing["$ref"])}", which it does not have`
    : nodes.map(typeProblem).find((found) => found !== undefined);
  if (problem) throw new InvalidOptionError("schema", problem);
  return new Validator(schema, draftOf(schema));
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
 */
function prepare(node: unknown): void {
  if (!isObject(node)) return;
  for (const name of ["$id", "id", "example", "examples"]) Reflect.deleteProperty(node, name);
  for (const [keyword, value] of Object.entries(node)) {
    if (ignoredKeyword[keyword]) continue;
    if (Array.isArray(value)) {
      if (schemaArrayKeyword[keyword]) value.forEach(prepare);
    } else if (schemaMapKeyword[keyword] && isObject(value)) {
      Object.values(value).forEach(prepare);
    } else prepare(value);
  }
}

const DRAFTS: readonly [part: string, draft: SchemaDraft][] = [
  ["draft-04", "4"],
  ["draft-06", "7"],
  ["draft-07", "7"],
  ["2019-09", "2019-09"],
];
function draftOf({ $schema = "" }: Schema): SchemaDraft {
  const uri = String($schema);
  return DRAFTS.find(([part]) => uri.includes(part))?.[1] ?? "2020-12";
}

/** Their values are data, not schemas. */
const VALUES: ReadonlySet<string> = new Set(["const", "enum", "default", "examples", "example"]);
/** References whose target depends on where they are evaluated: the validator does not follow them. */
const DYNAMIC = ["$dynamicRef", "$recursiveRef"];

/** @throws InvalidOptionError for what the validator cannot check */
function checkNode(node: unknown, path: readonly string[]): void {
  const at = path.join(".");
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
  try {
    new RegExp(pattern, "u");
  } catch {
    throw new InvalidOptionError(path, "must be a regular expression with the flag u");
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
