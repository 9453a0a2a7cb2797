/** What a resource, namespace or holder may be called: checked before a request joins a batch. */
import { InvalidOptionError } from "./errors.js";

const LONGEST_NAME_BYTES = 256;
const LONGEST_METADATA_BYTES = 4096;
const encoder = new TextEncoder();

/**
 * 1-256 bytes of UTF-8 without NUL (PostgreSQL cannot keep it) or a lone surrogate (two different
 * names would be encoded alike).
 * @throws InvalidOptionError naming `path`
 */
export function checkName(path: string, name: unknown): asserts name is string {
  if (isPlainName(name)) return;
  if (typeof name !== "string") throw new InvalidOptionError(path, "must be a string");
  if (name === "") throw new InvalidOptionError(path, "must not be empty");
  checkText(path, name, LONGEST_NAME_BYTES);
}

const PLAIN = /^[ -~]+$/;

/** Whether a name consists of visible ASCII characters and spaces only, and is not too long: then it is valid everywhere. */
export function isPlainName(name: unknown): name is string {
  return typeof name === "string" && name.length <= LONGEST_NAME_BYTES && PLAIN.test(name);
}

/** Control characters, and those without a width: zero-width spaces and joiners, directions of text. */
const INVISIBLE = /[\p{Cc}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/**
 * As checkName, for names that a caller gives to something new, where it also refuses characters that people
 * cannot see: two names would look alike. Names from before stay usable: renewals, releases and lists take any.
 * @throws InvalidOptionError naming `path`
 */
export function checkNewName(path: string, name: unknown): asserts name is string {
  if (isPlainName(name)) return;
  checkName(path, name);
  const [invisible] = INVISIBLE.exec(name) ?? [];
  if (invisible === undefined) return;
  const code = invisible.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0");
  throw new InvalidOptionError(path, `must not contain invisible characters, such as U+${code}`);
}

/**
 * Refuses a namespace of white space only, as the command line does: most often a variable was empty.
 * @throws InvalidOptionError
 */
export function checkNotBlank(path: string, name: string): void {
  if (!/\S/.test(name)) throw new InvalidOptionError(path, "must not be white space only");
}

/** A notification channel's name has at most 63 bytes, and `leasehold_` takes ten. */
const LONGEST_SCHEMA = 53;

/**
 * A schema of PostgreSQL for our tables: 1 to 53 of `a-z`, `0-9` and `_`, not first a digit, and no schema that belongs
 * to others. Other libraries put `?schema=public` into the same URL for their own tables.
 * @throws InvalidOptionError
 */
export function checkSchema(name: unknown): asserts name is string {
  const isName = typeof name === "string" && /^[a-z_][a-z0-9_]*$/.test(name);
  if (!isName || name.length > LONGEST_SCHEMA) {
    throw new InvalidOptionError(
      "schema",
      `must be 1 to ${LONGEST_SCHEMA} of a-z, 0-9 and _, and not begin with a digit`,
    );
  }
  if (name === "public" || name === "information_schema" || name.startsWith("pg_")) {
    throw new InvalidOptionError(
      "schema",
      `must be a schema of its own, not "${name}": leave it out for "leasehold"`,
    );
  }
}

/**
 * At least one name.
 * @throws InvalidOptionError naming the list or the entry
 */
export function checkNames(path: string, names: unknown): void {
  if (!Array.isArray(names) || names.length === 0) {
    throw new InvalidOptionError(path, "must be an array of at least one name");
  }
  for (const [at, name] of names.entries()) checkName(`${path}.${at}`, name);
}

/**
 * Metadata as it is stored: a JSON object of strings, at most 4 KiB.
 * @throws InvalidOptionError naming the entry
 */
export function encodeMetadata(metadata: Readonly<Record<string, string>>): string {
  for (const [name, value] of Object.entries(metadata)) {
    if (typeof value !== "string") {
      throw new InvalidOptionError(`metadata.${name}`, "must be a string");
    }
  }
  const text = JSON.stringify(metadata);
  checkText("metadata", text, LONGEST_METADATA_BYTES);
  return text;
}

function checkText(path: string, text: string, longestBytes: number): void {
  if (text.includes("\0")) throw new InvalidOptionError(path, "must not contain a NUL character");
  if (!text.isWellFormed()) {
    throw new InvalidOptionError(path, "must not contain a lone surrogate (half a character)");
  }
  const bytes = text.length > longestBytes ? text.length : encoder.encode(text).length;
  if (bytes > longestBytes) {
    throw new InvalidOptionError(path, `must be at most ${longestBytes} bytes of UTF-8`);
  }
}
