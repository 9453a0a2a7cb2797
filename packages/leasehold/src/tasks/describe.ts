/** Far more than anybody reads, and far less than any store's limit. */
const LONGEST_TEXT = 64 * 1024;

/** What was thrown, as text of at most 65,536 characters. Handlers throw anything; this never does. */
export function describe(error: unknown): string {
  return textOf(error).slice(0, LONGEST_TEXT);
}

function textOf(error: unknown): string {
  try {
    return String(error instanceof Error ? (error.stack ?? error.message) : error);
  } catch {
    // An object without a prototype, a toString that throws, a revoked proxy.
    return "something was thrown that cannot be shown as text";
  }
}
