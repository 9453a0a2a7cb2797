import type { Random } from "../env/index.js";
import { seededRandom } from "./manual-clock.js";

/** What a random walk chooses, the same in every run with its seed. */
export class Choices {
  readonly random: Random;

  constructor(seed: number) {
    this.random = seededRandom(seed);
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.random.float() * list.length)] as T;
  }

  chance(ratio: number): boolean {
    return this.random.float() < ratio;
  }

  /** Up to `most` of what `make` makes, and one at least. */
  some<T>(most: number, make: () => T): T[] {
    return Array.from({ length: 1 + Math.floor(this.random.float() * most) }, make);
  }
}
