/** Pages of records that are filtered one by one. */

/**
 * Records that one page passes over, so that a filter which few match does not hold up the event loop. The page has
 * a cursor then, and fewer records than asked for, or none.
 * @internal
 */
export const MOST_PASSED_OVER = 10_000;

/**
 * The first of the records that match, at most `limit`.
 * @returns also the record after which the next page begins; null: there is none
 */
export function pageOf<Item>(
  records: Iterable<Item>,
  limit: number,
  matches: (record: Item) => boolean,
): { readonly found: Item[]; readonly last: Item | null } {
  const found: Item[] = [];
  let passedOver = 0;
  let last: Item | null = null;
  for (const record of records) {
    const isWanted = matches(record);
    if (isWanted ? found.length === limit : passedOver === MOST_PASSED_OVER) return { found, last };
    if (isWanted) found.push(record);
    else passedOver += 1;
    last = record;
  }
  return { found, last: null };
}

/** The items before this index, last first. */
export function* backFrom<Item>(items: readonly Item[], end: number): Generator<Item, void, void> {
  for (let index = end - 1; index >= 0; index -= 1) yield items[index] as Item;
}
