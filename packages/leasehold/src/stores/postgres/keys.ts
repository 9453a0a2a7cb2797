/** Keys of leases, as columns; ranges of texts. */
import type { Key } from "../../lease/index.js";

export function keyColumns(keys: readonly Key[]): string[][] {
  return [keys.map(({ namespace }) => namespace), keys.map(({ resource }) => resource)];
}

const LAST_CODE_POINT = 0x10ffff;

/**
 * Returns the first text, in code point order, after all texts with the prefix; null if there is none.
 * A range needs no wildcards, so no character of a prefix acts as one.
 */
export function endOfPrefix(prefix: string): string | null {
  const points = Array.from(prefix, (character) => character.codePointAt(0) ?? 0);
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    if (last === LAST_CODE_POINT) continue;
    // Surrogates are not code points of a text.
    const next = last === 0xd7ff ? 0xe000 : last + 1;
    return String.fromCodePoint(...points, next);
  }
  return null;
}
