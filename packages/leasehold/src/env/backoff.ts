import { jittered, type Random } from "./random.js";

interface BackoffOptions {
  /** The delay after the first failure. */
  readonly firstMs: number;
  /** No delay is longer, before jitter. */
  readonly longestMs: number;
  /** How far each delay may be from its mean, as a ratio of it. Default 0.5. */
  readonly jitter?: number;
}

/**
 * How long to wait after each failure in a row: the delay doubles up to the longest, and jitter keeps
 * clients that failed together from retrying together.
 */
export class Backoff {
  readonly #random: Random;
  readonly #options: BackoffOptions;
  #failures = 0;

  constructor(random: Random, options: BackoffOptions) {
    this.#random = random;
    this.#options = options;
  }

  /** The delay before the next attempt, in milliseconds. */
  nextMs(): number {
    const { firstMs, longestMs, jitter = 0.5 } = this.#options;
    const meanMs = Math.min(firstMs * 2 ** this.#failures, longestMs);
    this.#failures += 1;
    return jittered(this.#random, meanMs, jitter);
  }

  /** An attempt has succeeded: the next failure is the first again. */
  reset(): void {
    this.#failures = 0;
  }
}
