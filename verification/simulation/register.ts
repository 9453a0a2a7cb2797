/**
 * What the leases protect: a value that remembers the largest token that has written it. The fenced
 * one refuses older tokens; the control lets everybody write and only counts what the fence would
 * have refused, to show that the world does produce late writers.
 */
import type { World } from "./world.js";

export class Register {
  #last = 0;
  /** Writes that came with an older token than one before: refused, or in the control let through. */
  stale = 0;
  accepted = 0;

  constructor(
    readonly world: World,
    readonly name: string,
    readonly fenced: boolean,
  ) {}

  get lastToken(): number {
    return this.#last;
  }

  /** Whether it was let through. */
  write(token: number): boolean {
    const stale = token < this.#last;
    if (stale) {
      this.stale += 1;
      if (this.fenced) return false;
    }
    this.accepted += 1;
    this.#last = this.fenced ? token : Math.max(this.#last, token);
    return true;
  }
}
