/**
 * How many replaced grants of a tenant with a limit go into the history, which keeps them for a week: as many at
 * once as the tenant may have lease records, and as many again each hour. Otherwise a tenant could fill the
 * database with a single resource. The history is for people, so the others are left out of it.
 */
import type { Clock, Logger } from "leasehold";
import { Sampler } from "../sampler.js";

const REFILL_MS = 3_600_000;
const LOG_EVERY_MS = 60_000;

interface Bucket {
  readonly most: number;
  tokens: number;
  atMs: number;
}

export class HistoryBudget {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, Bucket>();
  readonly #leftOut: Sampler;

  constructor({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = clock;
    this.#leftOut = new Sampler(clock, { most: 0, everyMs: LOG_EVERY_MS }, (leftOut) => {
      const fields = { event: "history_left_out", leftOut };
      logger.warn(fields, "tenants replace more grants than their limit allows in the history");
    });
  }

  /** @param most of the tenant; null: unlimited */
  limit(namespace: string, most: number | null): void {
    const known = this.#buckets.get(namespace);
    if (most === null) this.#buckets.delete(namespace);
    else if (known?.most !== most) {
      const tokens = Math.min(most, known?.tokens ?? most);
      this.#buckets.set(namespace, { most, tokens, atMs: this.#clock.monotonic() });
    }
  }

  /** Whether the history may have another grant of the tenant. */
  take(namespace: string): boolean {
    const bucket = this.#buckets.get(namespace);
    if (!bucket) return true;
    const nowMs = this.#clock.monotonic();
    const added = ((nowMs - bucket.atMs) / REFILL_MS) * bucket.most;
    bucket.tokens = Math.min(bucket.most, bucket.tokens + added);
    bucket.atMs = nowMs;
    if (bucket.tokens >= 1) {
      bucket.tokens -= 1;
      return true;
    }
    this.#leftOut.admits();
    return false;
  }
}
