import { Recent } from "../../env/index.js";

/** Of this many resources is remembered what was seen last; of the latest half of them surely. */
export const MOST_KNOWN = 8_192;

/**
 * Since when resources are free. Transactions cannot read a clock of etcd's, so this is measured by our
 * own one, from when we first saw it: later than it was, so that what is kept for the first in line is
 * kept for longer than is said, never for a shorter time.
 */
export class Sightings {
  readonly #free = new Recent<{ readonly revision: number; readonly sinceMs: number }>(MOST_KNOWN);

  /**
   * @param changed the revision of the last grant, renewal or release
   * @param revision as of which nobody holds it
   */
  freeForMs(key: string, changed: number, revision: number, nowMs: number): number {
    const seen = this.#free.get(key);
    if (seen && seen.revision >= changed) return nowMs - seen.sinceMs;
    this.#free.set(key, { revision: Math.max(changed, revision), sinceMs: nowMs });
    return 0;
  }

  /** Somebody holds it. */
  taken(key: string): void {
    this.#free.delete(key);
  }
}
