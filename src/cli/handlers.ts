/** Loads the handlers that a worker runs from a file of the user's. */
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { TaskHandler } from "../tasks/index.js";
import { UsageError } from "./failures.js";

const WANTED =
  "an array of handlers made by defineTask(...).handle(...), or a function (options) => array";

/**
 * The default export of `file`, or what it answers for `options` where it is a function.
 * @throws UsageError that says what is wrong with the file
 */
export async function loadHandlers(
  file: string,
  options: Readonly<Record<string, unknown>>,
): Promise<readonly TaskHandler[]> {
  const path = resolve(file);
  const there = await stat(path).catch(() => null);
  if (!there?.isFile()) throw new UsageError(`there is no file ${path}`);
  const handlers = await defaultExport(path, options).catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    throw new UsageError(`${path} failed: ${message}`, { cause: error });
  });
  if (!Array.isArray(handlers) || handlers.length === 0) {
    throw new UsageError(`the default export of ${path} must be ${WANTED}`);
  }
  for (const [index, handler] of handlers.entries()) {
    if (!isHandler(handler)) {
      throw new UsageError(
        `entry ${index} of the default export of ${path} is no handler: it must be ${WANTED}`,
      );
    }
  }
  return handlers as TaskHandler[];
}

async function defaultExport(
  path: string,
  options: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  const module = (await import(pathToFileURL(path).href)) as { default?: unknown };
  const value = module.default;
  return typeof value === "function" ? await (value as (o: unknown) => unknown)(options) : value;
}

function isHandler(value: unknown): value is TaskHandler {
  if (typeof value !== "object" || value === null) return false;
  const { kind, run } = value as Partial<TaskHandler>;
  return typeof kind === "string" && typeof run === "function";
}
