import type { Random } from "leasehold";
import { shuffled } from "./draws.js";
import type { Kind } from "./site.js";

/** Each kind once, in an order drawn anew each time that all have been had. */
export class Bag {
  #left: Kind[] = [];

  constructor(
    readonly kinds: readonly Kind[],
    readonly random: Random,
  ) {}

  next(): Kind | undefined {
    if (this.#left.length === 0) this.#left = shuffled(this.random, this.kinds);
    return this.#left.pop();
  }
}
