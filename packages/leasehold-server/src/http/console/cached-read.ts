/**
 * A read of the store that concurrent and successive callers share. It runs every few seconds at most,
 * and less often if it is slow.
 */
import type { Clock } from "leasehold";
import { Recent } from "leasehold/internal";

const EVERY_MS = 2_000;
/** Maximum share of time spent reading. */
const MAX_SHARE = 0.1;
/** A read that takes longer is abandoned: the store may hang. */
const OVERDUE_MS = 10_000;
const MAX_KEPT = 100;

interface Reading<T> {
  readonly atMs: number;
  readonly answer: Promise<T>;
  /** Undefined while the read runs. */
  tookMs: number | undefined;
}

/** Keyed by namespace, or by any JSON value. */
export class CachedRead<T, Of = string> {
  readonly #clock: Clock;
  readonly #read: (of: Of) => Promise<T>;
  readonly #readings = new Recent<Reading<T>>(MAX_KEPT);

  constructor(clock: Clock, read: (of: Of) => Promise<T>) {
    this.#clock = clock;
    this.#read = read;
  }

  /** Returns a result that is a few seconds old at most, or older if the read is slow. Does not keep failures. */
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
  return tookMs === undefined ? OVERDUE_MS : Math.max(EVERY_MS, tookMs / MAX_SHARE);
}
