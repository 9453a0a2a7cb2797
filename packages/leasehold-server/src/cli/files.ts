/** Files that arguments and options name. */
import { readFile } from "node:fs/promises";
import { reasonOf } from "leasehold/internal/describe";
import { UsageError } from "./failures.js";

/** @throws UsageError that names the file */
export async function readBytes(file: string): Promise<Uint8Array> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${reasonOf(error)}`);
  }
}

/** @throws UsageError that names the option, and nothing of what the file has */
export function readText(file: string, option: string): Promise<string> {
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${option}: cannot read ${file} (${error.code ?? error.message})`);
  });
}
