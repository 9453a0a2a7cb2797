/**
 * What many ask the store for and few need anew: by what it is of, read every few seconds at most however
 * many ask, and more rarely where it takes long.
 */
import type { Clock } from "leasehold";
import { Recent } from "leasehold/internal";

const EVERY_MS = 2_000;
/** So much of the time at most is spent on it. */
const MOST_SHARE = 0.1;
/** A reading that has not ended by then is given up: the store may have hung. */
const OVERDUE_MS = 10_000;
const MOST_KEPT = 100;

interface Reading<T> {
  readonly atMs: number;
  readonly answer: Promise<T>;
  /** Undefined while it goes on. */
  tookMs: number | undefined;
}

/** Of tenants by default. */
export class CachedRead<T, Of = string> {
  readonly #clock: Clock;
  readonly #read: (of: Of) => Promise<T>;
  readonly #readings = new Recent<Reading<T>>(MOST_KEPT);

  constructor(clock: Clock, read: (of: Of) => Promise<T>) {
    this.#clock = clock;
    this.#read = read;
  }

  /** As of a few seconds ago at most, or longer where it takes long. A failure is not kept. */
  of(what: Of): Promise<T> {
    const name = JSON.stringify(what);
    const nowMs = this.#clock.monotonic();
    const last = this.#readings.get(name);
    if (last && nowMs - last.atMs < goodForMs(last)) return last.answer;
    const reading: Reading<T> = {
      atMs: nowMs,
      answer: this.#read(what),
      tookMs: undefined,
    };
    this.#readings.set(name, reading);
    reading.answer.then(
      () => {
        reading.tookMs = this.#clock.monotonic() - nowMs;
      },
      () => {
        if (this.#readings.get(name) === reading) this.#readings.delete(name);
      },
    );
    return reading.answer;
  }
}

function goodForMs({ tookMs }: Reading<unknown>): number {
  return tookMs === undefined ? OVERDUE_MS : Math.max(EVERY_MS, tookMs / MOST_SHARE);
}
