/** Counts per second of the last minutes, in bounded memory. */
import type { Clock } from "leasehold";

const SECOND_MS = 1_000;

/** Rows of integers with one column for each of the last seconds. */
export class PerSecond<Name extends string> {
  readonly #clock: Clock;
  readonly #seconds: number;
  readonly #empty: number;
  readonly #rows = new Map<Name, Int32Array>();
  /** The latest second with a column. */
  #latest: number;

  /** @param empty the value of a second without entries; default 0 */
  constructor(clock: Clock, seconds: number, empty = 0) {
    this.#clock = clock;
    this.#seconds = seconds;
    this.#empty = empty;
    this.#latest = secondOf(clock);
  }

  add(name: Name, by = 1): void {
    const column = this.#column();
    const row = this.#row(name);
    row[column] = (row[column] ?? 0) + by;
  }

  /** Sets the value of the current second; the last call wins. */
  set(name: Name, value: number): void {
    const column = this.#column();
    this.#row(name)[column] = value;
  }

  /** Values of the last seconds, oldest first. The last second is still in progress. */
  of(name: Name, seconds: number): number[] {
    this.#column();
    const row = this.#rows.get(name);
    return Array.from({ length: seconds }, (_, index) => {
      const second = this.#latest - seconds + 1 + index;
      return row?.[this.#at(second)] ?? this.#empty;
    });
  }

  /** Sum over the last seconds. */
  sum(name: Name, seconds: number): number {
    // Most names never have a value.
    if (!this.#rows.has(name)) return this.#empty * seconds;
    return this.of(name, seconds).reduce((sum, value) => sum + value, 0);
  }

  #row(name: Name): Int32Array {
    let row = this.#rows.get(name);
    if (!row) {
      row = new Int32Array(this.#seconds).fill(this.#empty);
      this.#rows.set(name, row);
    }
    return row;
  }

  /** Returns the current second's column and clears the columns of seconds that have passed. */
  #column(): number {
    const now = secondOf(this.#clock);
    const passed = Math.min(now - this.#latest, this.#seconds);
    for (let second = now - passed + 1; second <= now; second += 1) {
      for (const row of this.#rows.values()) row[this.#at(second)] = this.#empty;
    }
    this.#latest = Math.max(this.#latest, now);
    return this.#at(this.#latest);
  }

  #at(second: number): number {
    return ((second % this.#seconds) + this.#seconds) % this.#seconds;
  }
}

/** Wall-clock time at which the first of the last seconds began. */
export function beganAt(clock: Clock, seconds: number): string {
  const intoMs = clock.monotonic() - secondOf(clock) * SECOND_MS;
  return new Date(Math.round(clock.wall() - intoMs - (seconds - 1) * SECOND_MS)).toISOString();
}

function secondOf(clock: Clock): number {
  return Math.floor(clock.monotonic() / SECOND_MS);
}
