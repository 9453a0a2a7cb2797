/**
 * The pages and large reads of one tenant that are under way at once, from the store to the text of the answer. What each
 * costs in this process, as its rows are read and its answer is written, is not bounded by the turns in which requests
 * begin (request-turns.ts): the store may answer many of them in one turn of the event loop, and the renewals of other
 * tenants, which need several turns each, would wait for all of them in each of those.
 *
 * The others wait, first in, first out. A place is free in the turn after its page was written.
 */
import { nextTurn } from "leasehold/internal";

const AT_ONCE = 4;

export class PageTurns {
  readonly #waiting: (() => void)[] = [];
  #free = AT_ONCE;

  /** @param read also writes what it has read, or its caller does in the same turn */
  async run<T>(read: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((begin) => this.#waiting.push(begin));
    try {
      return await read();
    } finally {
      void nextTurn().then(() => this.#end());
    }
  }

  #end(): void {
    const begin = this.#waiting.shift();
    if (begin) begin();
    else this.#free += 1;
  }
}
