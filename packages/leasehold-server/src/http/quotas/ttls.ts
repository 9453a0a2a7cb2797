/** On etcd each different TTL costs a lease of the engine a second, which lives for as long: how many a tenant may use. */
import type { Clock } from "leasehold";
import { tooMany } from "../problems.js";

/** Programs have one TTL for each kind of work. */
const [MOST, PERIOD_MS] = [100, 10_000];

export class Ttls {
  readonly #clock: Pick<Clock, "monotonic">;
  /** The TTLs that each tenant has used in this period, in whole seconds. */
  readonly #used = new Map<string, Set<number>>();
  #sinceMs = -Infinity;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /**
   * A TTL that the tenant uses already stays allowed, because its leases are to be renewed.
   * @throws TOO_MANY_REQUESTS
   */
  check(namespace: string, requests: readonly { readonly ttlMs: number }[]): void {
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#sinceMs >= PERIOD_MS) {
      this.#used.clear();
      this.#sinceMs = nowMs;
    }
    const used = this.#used.get(namespace) ?? new Set();
    const seconds = requests.map(({ ttlMs }) => Math.ceil(ttlMs / 1_000));
    if (seconds.every((one) => used.has(one))) return;
    const fresh = new Set(seconds.filter((one) => !used.has(one)));
    if (used.size + fresh.size > MOST) {
      const detail = `a tenant may use ${MOST} different TTLs, in whole seconds, within ${PERIOD_MS / 1_000} s at each instance`;
      throw tooMany("ttls", detail, PERIOD_MS - (nowMs - this.#sinceMs));
    }
    for (const one of fresh) used.add(one);
    this.#used.set(namespace, used);
  }
}
