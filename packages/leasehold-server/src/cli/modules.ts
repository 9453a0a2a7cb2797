/** Loads the user's modules, by the file named on the command line. */
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { UsageError } from "./failures.js";

/**
 * Returns the result of `use` for the exports of `file`.
 * @throws UsageError if the file does not exist, or if loading it or `use` fails
 */
export async function loadModule<T>(
  file: string,
  use: (exports: Readonly<Record<string, unknown>>, path: string) => T | Promise<T>,
): Promise<T> {
  const path = resolve(file);
  const there = await stat(path).catch(() => null);
  if (!there?.isFile()) throw new UsageError(`there is no file ${path}`);
  try {
    const exports = (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
    return await use(exports, path);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw new UsageError(`${path} failed: ${message}`, { cause: error });
  }
}
