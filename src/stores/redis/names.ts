/** The names in several indexes as one list, in the order of the bytes of UTF-8. */

/** Names of one index between two bounds of ZRANGEBYLEX, the first `count` of them. */
export type Range = (
  index: string,
  from: Buffer,
  to: Buffer,
  count: number,
) => Promise<readonly string[]>;

/**
 * Chunks of names, each behind the one before. An index that has answered as many as were asked for
 * may go on with names that precede another's: what lies beyond its last one waits for the next chunk.
 */
export async function* namesOf(
  indexes: readonly string[],
  { prefix, after }: { readonly prefix: string; readonly after: string | undefined },
  range: Range,
  count: number,
): AsyncGenerator<readonly string[], void, void> {
  // No byte of UTF-8 is 0xff: it stands behind all that begin with the prefix.
  const to = Buffer.concat([Buffer.from(`(${prefix}`), Buffer.from([0xff])]);
  const from = (name: string | undefined) =>
    name === undefined || compareBytes(name, prefix) < 0 ? `[${prefix}` : `(${name}`;
  for (let last = after; ; ) {
    const start = Buffer.from(from(last));
    const lists = await Promise.all(indexes.map((index) => range(index, start, to, count)));
    const ends = lists.flatMap((list) => (list.length === count ? (list.at(-1) ?? []) : []));
    const end = ends.sort(compareBytes)[0];
    const names = lists.flat().sort(compareBytes);
    const sure = end === undefined ? names : names.filter((name) => compareBytes(name, end) <= 0);
    if (sure.length > 0) yield sure;
    if (end === undefined) return;
    last = end;
  }
}

function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
