/**
 * The latest of many by name, in bounded space: two maps, the older of which is dropped when the younger
 * one is full. To take the oldest out of one map, one by one, costs more the more have been taken out.
 */
export class Recent<T> {
  readonly #half: number;
  #young = new Map<string, T>();
  #old = new Map<string, T>();

  /** @param most that are kept; the latest half of it surely */
  constructor(most: number) {
    this.#half = Math.ceil(most / 2);
  }

  get(name: string): T | undefined {
    return this.#young.get(name) ?? this.#old.get(name);
  }

  has(name: string): boolean {
    return this.#young.has(name) || this.#old.has(name);
  }

  /** As the latest. */
  set(name: string, value: T): void {
    if (this.#young.size >= this.#half && !this.#young.has(name)) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(name, value);
  }

  /** False when there was none. */
  delete(name: string): boolean {
    const wasOld = this.#old.delete(name);
    return this.#young.delete(name) || wasOld;
  }

  /** Each once; in the order in which they were last set. */
  *entries(): IterableIterator<[string, T]> {
    for (const entry of this.#old) if (!this.#young.has(entry[0])) yield entry;
    yield* this.#young;
  }
}
