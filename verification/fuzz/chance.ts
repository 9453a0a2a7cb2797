/** Choices that a seed repeats. */
import { seededRandom } from "leasehold/testing";

export class Chance {
  readonly #float: () => number;

  /** The same seed and case make the same choices, whatever the cases before it were. */
  constructor(seed: number, kind: "schema" | "raw" | "good", index: number) {
    const kinds = { schema: 1, raw: 2, good: 3 };
    const { float } = seededRandom(seed * 2 ** 22 + index * 4 + kinds[kind]);
    this.#float = float;
  }

  /** A whole number below `count`. */
  below(count: number): number {
    return Math.floor(this.#float() * count);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }

  /** True `percent` times of 100. */
  often(percent: number): boolean {
    return this.#float() * 100 < percent;
  }
}
