import { invariant } from "./assert.js";

/** Pairs of the items at the same index of two lists of one length. */
export function zip<A, B>(first: readonly A[], second: readonly B[]): [A, B][] {
  invariant(first.length === second.length, "both lists have the same length");
  return first.map((item, index) => [item, second[index] as B]);
}

/** Lists of at most this many items each, in their order. */
export function chunked<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, at) =>
    items.slice(at * size, (at + 1) * size),
  );
}
