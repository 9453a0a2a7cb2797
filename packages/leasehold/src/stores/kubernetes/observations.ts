/**
 * What this store has seen of the objects that are held, and since when. There is no clock that all
 * share, so each store measures by its own how long a record stays as it is:
 *
 *   holder      send ─── PUT ─── answer ────────────▶ trusted until send + duration
 *                          \
 *   contender               receives the version ─────────▶ free at receipt + duration
 *
 * The contender receives it later than the holder sent it, so the holder's trust ends first, whatever
 * the clocks say; only their rates matter. Every write makes a version and starts the age anew.
 */
import { isHeld, type LeaseObject, type Observed, revisionOf } from "./records.js";

export class Observations {
  readonly #seen = new Map<string, Observed>();

  /** What was seen last of an object, if it was held. */
  get(name: string): Observed | undefined {
    return this.#seen.get(name);
  }

  /**
   * Notes a version.
   * @param trustFromMs if we wrote it: see {@link Observed}
   * @returns it, with the time at which it was first seen
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
    // Not an answer that was overtaken by a newer one.
    if (last && revisionOf(object) < revisionOf(last.object)) return observed;
    // There is nothing to wait for where nobody holds.
    if (isHeld(object)) this.#seen.set(name, observed);
    else this.#seen.delete(name);
    return observed;
  }

  forget(name: string): void {
    this.#seen.delete(name);
  }
}
