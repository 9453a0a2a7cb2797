/**
 * A list that is kept in order. It consists of short arrays, so that an insertion or a deletion moves a bounded
 * number of items, however long the list is.
 */
const MOST_IN_CHUNK = 512;

export class SortedList<T> {
  /** In order; none is empty. */
  readonly #chunks: T[][] = [];
  readonly #compare: (a: T, b: T) => number;
  #length = 0;

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  get length(): number {
    return this.#length;
  }

  get first(): T | undefined {
    return this.#chunks[0]?.[0];
  }

  /** Adds an item that is not in the list. */
  add(item: T): void {
    this.#length += 1;
    const [at, index] = this.#find(item);
    // What comes after all others goes to the end of the last chunk.
    const chunk = this.#chunks[at] ?? this.#chunks.at(-1);
    if (!chunk) {
      this.#chunks.push([item]);
      return;
    }
    const found = at < this.#chunks.length ? at : at - 1;
    if (at === found) chunk.splice(index, 0, item);
    else chunk.push(item);
    if (chunk.length <= MOST_IN_CHUNK) return;
    // An appended item begins a chunk of its own, so that lists which grow at the end have full chunks.
    const kept = at === found ? MOST_IN_CHUNK / 2 : MOST_IN_CHUNK;
    this.#chunks.splice(found + 1, 0, chunk.splice(kept));
  }

  delete(item: T): void {
    const [at, index] = this.#find(item);
    const chunk = this.#chunks[at];
    const found = chunk?.[index];
    if (!chunk || found === undefined || this.#compare(found, item) !== 0) return;
    this.#length -= 1;
    if (index === 0) chunk.shift();
    else chunk.splice(index, 1);
    if (chunk.length === 0) this.#chunks.splice(at, 1);
  }

  clear(): void {
    this.#chunks.length = 0;
    this.#length = 0;
  }

  /** How many items come before this one. */
  before(item: T): number {
    const [at, index] = this.#find(item);
    let count = index;
    for (let chunk = 0; chunk < at; chunk += 1) count += this.#chunks[chunk]?.length ?? 0;
    return count;
  }

  /** The items from this one on, or all. The list must not change meanwhile. */
  *from(item?: T): Generator<T, void, void> {
    let [at, index] = item === undefined ? [0, 0] : this.#find(item);
    for (; at < this.#chunks.length; at += 1, index = 0) {
      const chunk = this.#chunks[at] ?? [];
      for (; index < chunk.length; index += 1) yield chunk[index] as T;
    }
  }

  /** The items before this one, or all, last first. The list must not change meanwhile. */
  *backFrom(item?: T): Generator<T, void, void> {
    let [at, index] = item === undefined ? [this.#chunks.length, 0] : this.#find(item);
    while (at >= 0) {
      const chunk = this.#chunks[at] ?? [];
      while (index > 0) {
        index -= 1;
        yield chunk[index] as T;
      }
      at -= 1;
      index = this.#chunks[at]?.length ?? 0;
    }
  }

  /** The chunk and the index in it of this item, or of the first one that comes after it. */
  #find(item: T): [number, number] {
    const chunks = this.#chunks;
    const at = firstIndex(chunks.length, (index) => {
      const last = chunks[index]?.at(-1) as T;
      return this.#compare(last, item) >= 0;
    });
    const chunk = chunks[at] ?? [];
    const index = firstIndex(
      chunk.length,
      (candidate) => this.#compare(chunk[candidate] as T, item) >= 0,
    );
    return [at, index];
  }
}

/** The first index for which this is true; `length` if there is none. It stays true once it is. */
function firstIndex(length: number, isReached: (index: number) => boolean): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isReached(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
