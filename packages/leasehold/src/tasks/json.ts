/** What task data, output and progress may be: only what JSON carries, because the rest would be lost silently. */
import { isError, reasonOf } from "../env/index.js";
import { InvalidOptionError } from "../lease/index.js";
import type { Json } from "./port.js";

/** Of progress and of a checkpoint, as JSON: they travel with heartbeats, in one request with those of other tasks. */
export const CHECKPOINT_BYTES = 64 * 1024;

/**
 * The value as its JSON represents it, so that readers get exactly the stored value. Undefined is null, a
 * property that is undefined is absent, and an object with `toJSON`, such as a Date, is what that returns. -0 is 0.
 * @throws InvalidOptionError for what JSON does not carry, with its path, such as `data.items.3.price`
 */
export function toJson(path: string, value: unknown, longestBytes?: number): Json {
  if (value === null || value === undefined) return null;
  let text: string;
  try {
    checkCarried(path, "", value, DEEPEST);
    text = JSON.stringify(value) ?? "null";
  } catch (error) {
    if (error instanceof InvalidOptionError) throw error;
    throw faultIn(path, () => value, new Set()) ?? notKept(path, error);
  }
  if (longestBytes !== undefined && new TextEncoder().encode(text).length > longestBytes) {
    throw new InvalidOptionError(path, `must be at most ${longestBytes} bytes as JSON`);
  }
  return JSON.parse(text) as Json;
}

/** Where a value that cannot be kept contains itself, or cannot be read; null: nowhere. */
function faultIn(path: string, read: () => unknown, above: Set<object>): InvalidOptionError | null {
  try {
    const given = read();
    if (typeof given !== "object" || given === null) return null;
    if (above.has(given)) {
      return new InvalidOptionError(path, "is circular, and JSON has no circular values");
    }
    // Deeper values fail without a fault too.
    if (above.size > DEEPEST) return null;
    above.add(given);
    const value = hasToJson(given) ? given.toJSON("") : given;
    for (const name of Object.keys(Object(value) as object)) {
      const item = () => (value as Readonly<Record<string, unknown>>)[name];
      const found = faultIn(`${path}.${name}`, item, above);
      if (found !== null) return found;
    }
    above.delete(given);
    return null;
  } catch (error) {
    return notKept(path, error);
  }
}

function notKept(path: string, error: unknown): InvalidOptionError {
  return new InvalidOptionError(path, `cannot be kept as JSON: ${reasonOf(error)}`);
}

/** As a server has it for the JSON of requests. */
const DEEPEST = 1_000;

const TOO_DEEP = `it is nested more than ${DEEPEST} levels deep`;

/** @param levels how many more arrays and objects may be within each other */
function checkCarried(path: string, key: string, given: unknown, levels: number): void {
  // JSON has null for a date that is none, as for NaN.
  if (given instanceof Date && Number.isNaN(given.getTime()))
    throw notCarried(path, "an invalid Date");
  const value = hasToJson(given) ? given.toJSON(key) : given;
  // What refers to itself is deep too, and is named so by the caller.
  if (levels === 0 && typeof value === "object" && value !== null) throw new RangeError(TOO_DEEP);
  if (Array.isArray(value)) return checkItems(path, value, levels - 1);
  const type = typeof value;
  if (NEVER_CARRIED.has(type)) throw notCarried(path, `a ${type}`);
  if (type === "number" && !Number.isFinite(value)) throw notCarried(path, String(value));
  if (typeof value === "object" && value !== null) checkProperties(path, value, levels - 1);
}

function checkItems(path: string, items: readonly unknown[], levels: number): void {
  for (let index = 0; index < items.length; index += 1) {
    const item = items[index];
    if (item === undefined) throw notCarried(`${path}.${index}`, "undefined in an array");
    if (mayLose(item)) checkCarried(`${path}.${index}`, `${index}`, item, levels);
  }
  // After the loop, an array has no holes: its indexes are its first keys.
  const name = Object.keys(items)[items.length];
  if (name !== undefined) throw notCarried(`${path}.${name}`, "a named property of an array");
  checkSymbols(path, items);
}

function checkSymbols(path: string, object: object): void {
  const symbol = Object.getOwnPropertySymbols(object).find((key) =>
    Object.prototype.propertyIsEnumerable.call(object, key),
  );
  if (symbol) throw notCarried(`${path}.${String(symbol)}`, "a property named by a symbol");
}

function checkProperties(path: string, object: object, levels: number): void {
  const properties = Object.entries(object);
  const kind = Object.prototype.toString.call(object).slice("[object ".length, -1);
  const isEmpty = properties.length === 0 && !PLAIN.has(kind);
  if (isError(object)) {
    const problem = `must be a value of JSON, not an Error: throw it, or convert it (${reasonOf(object)})`;
    throw new InvalidOptionError(path, problem);
  }
  if (isEmpty || ArrayBuffer.isView(object)) {
    throw notCarried(path, `an object of the type ${kind}`);
  }
  // Afterwards, because Node marks promises by symbols while hooks watch them.
  checkSymbols(path, object);
  for (const [name, item] of properties) {
    if (mayLose(item)) checkCarried(`${path}.${name}`, name, item, levels);
  }
}

/**
 * Objects that may be empty. Built-in ones such as a Map keep their content elsewhere than in properties.
 * Objects of classes are `Object`; wrappers are what they wrap.
 */
const PLAIN: ReadonlySet<string> = new Set(["Object", "String", "Number", "Boolean"]);

const NEVER_CARRIED: ReadonlySet<string> = new Set(["function", "symbol", "bigint"]);

/** Spares the path of a value that JSON carries for certain. */
function mayLose(value: unknown): boolean {
  return (
    typeof value !== "string" && typeof value !== "boolean" && value !== null && value !== undefined
  );
}

function hasToJson(value: unknown): value is { toJSON(key: string): unknown } {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as { toJSON?: unknown }).toJSON === "function"
  );
}

function notCarried(path: string, what: string): InvalidOptionError {
  return new InvalidOptionError(
    path,
    `must be a value of JSON, not ${what}: convert it, or leave it out`,
  );
}
