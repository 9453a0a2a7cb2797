/**
 * Token buckets: what a tenant or an address may use of something in a second, and beyond it now and then.
 *
 *   requests of a tenant             `ratePerSecond`, by what they cost     tenant-admission.ts
 *   prompt refusals of a tenant      20 a second                            tenant-admission.ts
 *   prompt refusals of an address    200 a second                           node.ts
 *   new connections of an address    a quarter of its connections in 4 s    connections.ts
 *   the history of a tenant's grants its lease records, each hour           quotas.ts
 *
 * A caller that has a token may take more than there are, and owes them.
 */
import type { Clock } from "leasehold";

export interface Rate {
  readonly perSecond: number;
  /** What a bucket holds. Default: a second's worth. */
  readonly most?: number;
}

const FORGET_EVERY_MS = 60_000;

interface Bucket {
  readonly tokens: number;
  readonly atMs: number;
  readonly most: number;
  readonly perSecond: number;
}

export class Buckets {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #buckets = new Map<string, Bucket>();
  #forgottenMs = -Infinity;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /**
   * Takes tokens, if there is one. A bucket that is new is full.
   * @returns 0, or the time until the next token in milliseconds
   */
  take(name: string, { perSecond, most: wanted = perSecond }: Rate, cost = 1): number {
    const atMs = this.#clock.monotonic();
    if (atMs - this.#forgottenMs >= FORGET_EVERY_MS) this.#forget(atMs);
    // With less than one, a bucket would never have a whole token.
    const most = Math.max(1, wanted);
    const before = this.#buckets.get(name) ?? { tokens: most, atMs, most, perSecond };
    const tokens = Math.min(most, filledAt(before, atMs));
    const isTaken = tokens >= 1;
    this.#buckets.set(name, { tokens: isTaken ? tokens - cost : tokens, atMs, most, perSecond });
    return isTaken ? 0 : Math.ceil(((1 - tokens) / perSecond) * 1_000);
  }

  /** Takes more for what has turned out to cost more. */
  charge(name: string, cost: number): void {
    const before = this.#buckets.get(name);
    if (before) this.#buckets.set(name, { ...before, tokens: before.tokens - cost });
  }

  /** Full buckets say no more than their absence. */
  #forget(nowMs: number): void {
    this.#forgottenMs = nowMs;
    for (const [name, bucket] of this.#buckets) {
      if (filledAt(bucket, nowMs) >= bucket.most) this.#buckets.delete(name);
    }
  }
}

/** May exceed the bucket. */
function filledAt({ tokens, atMs, perSecond }: Bucket, nowMs: number): number {
  return tokens + ((nowMs - atMs) / 1_000) * perSecond;
}
