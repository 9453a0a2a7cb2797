/** JSON that users write: in arguments, in options, in lines of stdin and in files. */
import { decodeJson, type Json, JsonTextError, readJson } from "leasehold/internal";
import { UsageError } from "./failures.js";

/**
 * @param what names the text for the user: `the data`
 * @param firstLine the number of its first line in what the user wrote
 * @throws UsageError
 */
export function jsonOf(text: string, what: string, firstLine?: number): Json {
  try {
    return readJson(text, firstLine);
  } catch (error) {
    throw asUsageError(error, what);
  }
}

/**
 * The text of bytes that must be JSON.
 * @throws UsageError
 */
export function jsonTextOf(bytes: Uint8Array, what: string): string {
  try {
    return decodeJson(bytes);
  } catch (error) {
    throw asUsageError(error, what);
  }
}

/**
 * Text that may be JSON, and is if it begins as an object, an array or a string of JSON does.
 * @throws UsageError
 */
export function jsonOrText(text: string, what: string): unknown {
  try {
    return readJson(text);
  } catch (error) {
    const isText = error instanceof JsonTextError && error.path === null && !/^\s*[[{"]/.test(text);
    if (isText) return text;
    throw asUsageError(error, what);
  }
}

function asUsageError(error: unknown, what: string): unknown {
  if (!(error instanceof JsonTextError)) return error;
  const { path, problem } = error;
  return new UsageError(path ? `${what}: ${path} ${problem}` : `${what} ${problem}`);
}
