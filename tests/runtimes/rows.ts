/** All rows, and how they are tried one after the other. */
import { BUNDLER_ROWS } from "./bundlers.js";
import { JEST_ROWS } from "./jest.js";
import { type Result, type Row, tryRow } from "./row.js";
import { RUNTIME_ROWS } from "./runtimes.js";
import type { Site } from "./site.js";
import { TYPE_ROWS } from "./types.js";
import { WORKER_ROWS } from "./workers.js";

export const ROWS: readonly Row[] = [
  ...RUNTIME_ROWS,
  ...WORKER_ROWS,
  ...TYPE_ROWS,
  ...BUNDLER_ROWS,
  ...JEST_ROWS,
];

/** @throws Error if no row's name has the pattern in it */
export function chosen(pattern: string | undefined): readonly Row[] {
  if (pattern === undefined) return ROWS;
  const wanted = pattern.toLowerCase();
  const found = ROWS.filter(({ name }) => name.toLowerCase().includes(wanted));
  if (found.length > 0) return found;
  throw new Error(
    `no row has "${pattern}" in its name: ${ROWS.map(({ name }) => name).join(", ")}`,
  );
}

export interface Reports {
  onStart(row: Row): void;
  onResult(result: Result): void;
}

/** Ends early, with the results so far, when the signal aborts. */
export async function tryRows(
  rows: readonly Row[],
  site: Site,
  signal: AbortSignal,
  { onStart, onResult }: Reports,
): Promise<Result[]> {
  const results: Result[] = [];
  for (const row of rows) {
    onStart(row);
    const result = await tryRow(row, site);
    // What it ran was ended.
    if (signal.aborted) break;
    results.push(result);
    onResult(result);
  }
  return results;
}
