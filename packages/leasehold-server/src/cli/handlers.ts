/** Loads a worker's handlers from the user's file. */
import type { TaskHandler } from "leasehold";
import type { Telemetry } from "leasehold/telemetry";
import { UsageError } from "./failures.js";
import { loadModule } from "./modules.js";

/** What handlers may use of the worker. */
export interface HandlersContext {
  /** For guards and clients of the handlers; absent if the worker exports no metrics. */
  readonly telemetry?: Telemetry;
}

const WANTED =
  "an array of handlers made by defineTask(...).handle(...), or a function (options, { telemetry }) => array";

/**
 * Returns the default export of `file`, or its result for `options` and `context` if it is a function.
 * @throws UsageError that explains the problem with the file
 */
export async function loadHandlers(
  file: string,
  options: Readonly<Record<string, unknown>>,
  context: HandlersContext = {},
): Promise<readonly TaskHandler[]> {
  return loadModule(file, async ({ default: value }, path) => {
    const handlers: unknown =
      typeof value === "function"
        ? await (value as (...given: unknown[]) => unknown)(options, context)
        : value;
    if (!Array.isArray(handlers) || handlers.length === 0) {
      throw new UsageError(`the default export of ${path} must be ${WANTED}`);
    }
    for (const [index, handler] of handlers.entries()) {
      if (!isHandler(handler)) {
        throw new UsageError(
          `entry ${index} of the default export of ${path} is not a handler: it must be ${WANTED}`,
        );
      }
    }
    return handlers as TaskHandler[];
  });
}

function isHandler(value: unknown): value is TaskHandler {
  if (typeof value !== "object" || value === null) return false;
  const { kind, run } = value as Partial<TaskHandler>;
  return typeof kind === "string" && typeof run === "function";
}
