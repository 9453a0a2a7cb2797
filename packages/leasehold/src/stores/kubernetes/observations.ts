/**
 * Tracks which version of each held object this store has seen, and since when. Clients share no clock,
 * so each store measures with its own how long a record stays unchanged:
 *
 *   holder      send ─── PUT ─── answer ────────────▶ trusted until send + duration
 *                          \
 *   contender               receives the version ─────────▶ free at receipt + duration
 *
 * The contender receives the version after the holder sent it, so the holder's trust ends first. Only
 * the clocks' rates matter, not their values. Every write makes a version and restarts the age.
 */
import { isHeld, type LeaseObject, type Observed, revisionOf } from "./records.js";

export class Observations {
  readonly #seen = new Map<string, Observed>();

  /** The last version seen of each held object. */
  get(name: string): Observed | undefined {
    return this.#seen.get(name);
  }

  /**
   * Records a version.
   * @param trustFromMs set if this store wrote it: see {@link Observed}
   * @returns the version, with the time at which this store first saw it
   */
  note(object: LeaseObject, nowMs: number, trustFromMs: number | null = null): Observed {
    const { name, resourceVersion } = object.metadata;
    const last = this.#seen.get(name);
    const isLast = last?.object.metadata.resourceVersion === resourceVersion;
    const observed: Observed = {
      object,
      receivedMs: last && isLast ? last.receivedMs : nowMs,
      trustFromMs: trustFromMs ?? (last && isLast ? last.trustFromMs : null),
    };
    // A newer response overtook this one.
    if (last && revisionOf(object) < revisionOf(last.object)) return observed;
    // A free object has no expiry to measure.
    if (isHeld(object)) this.#seen.set(name, observed);
    else this.#seen.delete(name);
    return observed;
  }

  forget(name: string): void {
    this.#seen.delete(name);
  }
}
