/** Files that options name. */
import { readFile } from "node:fs/promises";
import { UsageError } from "./failures.js";

/** @throws UsageError that names the option, and nothing of what the file has */
export function readText(file: string, option: string): Promise<string> {
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${option}: cannot read ${file} (${error.code ?? error.message})`);
  });
}
