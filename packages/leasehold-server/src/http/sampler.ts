/** Bounds the log lines about events that anyone can cause. */
import type { Clock, Timer } from "leasehold";

/**
 * Admits the first `most` lines of each period, and reports at its end how many it left out. A period begins
 * with its first line, so there is no timer without lines.
 */
export class Sampler {
  readonly #clock: Clock;
  readonly #period: { readonly most: number; readonly everyMs: number };
  readonly #report: (leftOut: number) => void;
  #count = 0;
  #timer: Timer | undefined;

  constructor(
    clock: Clock,
    period: { readonly most: number; readonly everyMs: number },
    report: (leftOut: number) => void,
  ) {
    this.#clock = clock;
    this.#period = period;
    this.#report = report;
  }

  admits(): boolean {
    const { most, everyMs } = this.#period;
    this.#timer ??= this.#clock.timer(everyMs, () => this.#end(), { background: true });
    this.#count += 1;
    return this.#count <= most;
  }

  /** Ends the period. */
  close(): void {
    this.#timer?.cancel();
    this.#end();
  }

  #end(): void {
    const leftOut = this.#count - this.#period.most;
    this.#timer = undefined;
    this.#count = 0;
    if (leftOut > 0) this.#report(leftOut);
  }
}
