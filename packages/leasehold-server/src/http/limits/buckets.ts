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

/** A new one is full. */
export class Bucket {
  readonly #clock: Pick<Clock, "monotonic">;
  #tokens = Infinity;
  #atMs = 0;
  #most = Infinity;
  #perSecond = 0;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** Says no more than its absence. */
  get isFull(): boolean {
    return this.#filledAt(this.#clock.monotonic()) >= this.#most;
  }

  /**
   * Takes tokens, if there is one.
   * @returns 0, or the time until the next token in milliseconds
   */
  take({ perSecond, most: wanted = perSecond }: Rate, cost = 1): number {
    const nowMs = this.#clock.monotonic();
    // With less than one, a bucket would never have a whole token.
    const most = Math.max(1, wanted);
    const tokens = Math.min(most, this.#filledAt(nowMs));
    const isTaken = tokens >= 1;
    this.#tokens = isTaken ? tokens - cost : tokens;
    this.#atMs = nowMs;
    this.#most = most;
    this.#perSecond = perSecond;
    return isTaken ? 0 : Math.ceil(((1 - tokens) / perSecond) * 1_000);
  }

  /** Takes more for what has turned out to cost more. */
  charge(cost: number): void {
    this.#tokens -= cost;
  }

  /** May exceed what it holds. */
  #filledAt(nowMs: number): number {
    return this.#tokens + ((nowMs - this.#atMs) / 1_000) * this.#perSecond;
  }
}

/** Buckets by name. */
export class Buckets {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #buckets = new Map<string, Bucket>();
  #forgottenMs = -Infinity;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** As `Bucket.take`. */
  take(name: string, rate: Rate, cost?: number): number {
    this.#forget();
    const bucket = this.#buckets.get(name) ?? new Bucket(this.#clock);
    this.#buckets.set(name, bucket);
    return bucket.take(rate, cost);
  }

  #forget(): void {
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#forgottenMs < FORGET_EVERY_MS) return;
    this.#forgottenMs = nowMs;
    for (const [name, bucket] of this.#buckets) if (bucket.isFull) this.#buckets.delete(name);
  }
}
