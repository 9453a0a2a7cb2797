/** Loads the user's modules, by the file named on the command line. */

import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Clock } from "leasehold";
import { formatDuration, systemClock, withTimeout } from "leasehold/internal";
import { reasonOf } from "leasehold/internal/describe";
import { UsageError } from "./failures.js";

/**
 * A module may wait for a database or a container that starts.
 * @internal
 */
export const LOAD_TIMEOUT_MS = 120_000;

/**
 * Returns the result of `use` for the exports of `file`.
 * @param use calls the function that the file exports, if it is one
 * @throws UsageError if the file does not exist, or if loading it or `use` fails or never ends
 */
export async function loadModule<T>(
  file: string,
  use: (exports: Readonly<Record<string, unknown>>, path: string) => Promise<T>,
  clock: Clock = systemClock,
): Promise<T> {
  const path = resolve(file);
  const there = await stat(path).catch(() => null);
  if (!there?.isFile()) throw new UsageError(`there is no file ${path}`);
  const within = <Loaded>(loading: Promise<Loaded>, what: string) =>
    withTimeout(clock, LOAD_TIMEOUT_MS, loading, () => {
      throw new UsageError(`${what} after ${formatDuration(LOAD_TIMEOUT_MS)}`);
    });
  try {
    const importing = import(pathToFileURL(path).href) as Promise<Record<string, unknown>>;
    const exports = await within(importing, `a top-level await of ${path} has not settled`);
    return await within(use(exports, path), `the function that ${path} exports has not settled`);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const message = reasonOf(error);
    throw new UsageError(`${path} failed: ${message}`, { cause: error });
  }
}
