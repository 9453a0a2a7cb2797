/** Makes what the commands print safe for a terminal, whatever the store contains. */
import { escapeHidden, escapeHiddenJson } from "leasehold/internal/hidden";

const OWN_LAYOUT = "\n\t";
const ESCAPE = "\u001b";
const OWN_COLOR = new RegExp(`(${ESCAPE}\\[\\d+m)`);

/** The value with its text as a terminal may show it, for output that people read. */
export function shown<T>(value: T): T {
  const walk = (part: unknown): unknown => {
    if (typeof part === "string") return escapeHidden(part);
    if (Array.isArray(part)) return part.map(walk);
    if (typeof part !== "object" || part === null || part instanceof Date) return part;
    return Object.fromEntries(Object.entries(part).map(([key, item]) => [key, walk(item)]));
  };
  return walk(value) as T;
}

/**
 * Escapes in a whole output what {@link shown} has not seen. Line ends and tabs stay.
 * @param isColored whether the output has colours, which then stay too
 */
export function safeLayout(text: string, isColored = false): string {
  if (!isColored) return escapeHidden(text, OWN_LAYOUT);
  const parts = text.split(OWN_COLOR);
  return parts.map((part, n) => (n % 2 ? part : escapeHidden(part, OWN_LAYOUT))).join("");
}

export function safeJson(value: unknown): string {
  return escapeHiddenJson(JSON.stringify(value));
}

/** Of an error: a name in it may have line ends, and its next line must not look like one of ours. */
export function indented(text: string): string {
  return text.replace(/\n(?! )/g, "\n  ");
}

/** Says of a list that it is cut. */
export function sayMore(limit: number, one: string, many: string): void {
  const found =
    limit === 1 ? `there is more than 1 ${one}` : `there are more than ${limit} ${many}`;
  say(`${found}: raise --limit`);
}

/** Writes a line to stderr. */
export function say(text: string): void {
  process.stderr.write(`${safeLayout(text)}\n`);
}
