import { Recent } from "../env/index.js";

/** The number of resources remembered; at least the latest half of them is kept. */
export const MOST_KNOWN = 8_192;

/**
 * Tracks since when resources are free, for engines whose clock a transaction cannot read. Each client measures
 * from when it first saw the resource free. That is later than the actual time, so a reservation for
 * the head of the queue lasts longer than stated, never shorter.
 */
export class Sightings {
  readonly #free = new Recent<{ readonly revision: number; readonly sinceMs: number }>(MOST_KNOWN);

  /**
   * @param changed the revision of the last grant, renewal or release
   * @param revision the revision at which the resource was read as free
   */
  freeForMs(key: string, changed: number, revision: number, nowMs: number): number {
    const seen = this.#free.get(key);
    if (seen && seen.revision >= changed) return nowMs - seen.sinceMs;
    this.#free.set(key, { revision: Math.max(changed, revision), sinceMs: nowMs });
    return 0;
  }

  /** Records that the resource is held. */
  taken(key: string): void {
    this.#free.delete(key);
  }
}
