/** So many are remembered, by resource; those that were seen last. */
const MOST_KNOWN = 4_096;

/** What was seen last of each resource. What is forgotten costs a read, or a look. */
export class Recent<Value> {
  readonly #values = new Map<string, Value>();

  get(key: string): Value | undefined {
    return this.#values.get(key);
  }

  set(key: string, value: Value): void {
    this.#values.delete(key);
    this.#values.set(key, value);
    if (this.#values.size <= MOST_KNOWN) return;
    const [oldest] = this.#values.keys();
    if (oldest !== undefined) this.#values.delete(oldest);
  }

  delete(key: string): void {
    this.#values.delete(key);
  }
}

/**
 * Since when resources are free. Transactions cannot read a clock of etcd's, so this is measured by our
 * own one, from when we first saw it: later than it was, so that what is kept for the first in line is
 * kept for longer than is said, never for a shorter time.
 */
export class Sightings {
  readonly #free = new Recent<{ readonly revision: number; readonly sinceMs: number }>();

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
