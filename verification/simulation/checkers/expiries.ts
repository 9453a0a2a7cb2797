/** Counts grants that expired, rather than being released or revoked. */
import type { Step } from "../observed.js";

export class Expiries {
  count = 0;
  /** By resource: the token of the last one that was counted. */
  readonly #last = new Map<string, number>();

  /** An expired grant is counted at the next step on its resource. */
  step({ resource, before, storeMs }: Step): void {
    if (!before || before.ended !== null || storeMs < before.expiresAtMs) return;
    if (this.#last.get(resource) === before.token) return;
    this.#last.set(resource, before.token);
    this.count += 1;
  }
}
