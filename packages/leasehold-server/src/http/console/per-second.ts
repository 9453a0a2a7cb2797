/** Figures of the last minutes, by second, in space that does not grow. */
import type { Clock } from "leasehold";

const SECOND_MS = 1_000;

/** Rows of whole numbers, one column for each of the last seconds. */
export class PerSecond<Name extends string> {
  readonly #clock: Clock;
  readonly #seconds: number;
  readonly #empty: number;
  readonly #rows = new Map<Name, Int32Array>();
  /** The latest second that has a column. */
  #latest: number;

  /** @param empty what stands where nothing was noted; default 0 */
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

  /** The last one of a second counts. */
  set(name: Name, value: number): void {
    const column = this.#column();
    this.#row(name)[column] = value;
  }

  /** Of the last seconds, the oldest first; the last one is under way. */
  of(name: Name, seconds: number): number[] {
    this.#column();
    const row = this.#rows.get(name);
    return Array.from({ length: seconds }, (_, index) => {
      const second = this.#latest - seconds + 1 + index;
      return row?.[this.#at(second)] ?? this.#empty;
    });
  }

  /** Adds those of the last seconds. */
  sum(name: Name, seconds: number): number {
    // Most names of many are never noted.
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

  /** That of now, and none of a time before the last minutes. */
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

/** When the first of the last seconds began, by the wall. */
export function beganAt(clock: Clock, seconds: number): string {
  const intoMs = clock.monotonic() - secondOf(clock) * SECOND_MS;
  return new Date(Math.round(clock.wall() - intoMs - (seconds - 1) * SECOND_MS)).toISOString();
}

function secondOf(clock: Clock): number {
  return Math.floor(clock.monotonic() / SECOND_MS);
}
