/**
 * How many different TTLs a tenant uses, in whole seconds. On etcd each of them costs a lease of the engine a second, which lives
 * for as long as the TTL: a tenant that renewed 500 leases with random TTLs cost another one 13 of 40 leases.
 */
import type { Clock } from "leasehold";
import { tooMany } from "../problems.js";

/** Programs have one for each kind of work. */
const MOST = 100;
const PERIOD_MS = 10_000;

export class TtlChoices {
  readonly #clock: Pick<Clock, "monotonic">;
  /** Of this period, by tenant. */
  readonly #chosen = new Map<string, Set<number>>();
  #sinceMs = -Infinity;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** @throws TOO_MANY_REQUESTS */
  check(tenant: string, requests: readonly { readonly ttlMs: number }[]): void {
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#sinceMs >= PERIOD_MS) {
      this.#chosen.clear();
      this.#sinceMs = nowMs;
    }
    const seconds = this.#chosen.get(tenant) ?? new Set();
    this.#chosen.set(tenant, seconds);
    const fresh = new Set(requests.map(({ ttlMs }) => Math.ceil(ttlMs / 1_000)));
    for (const known of seconds) fresh.delete(known);
    // Those that it uses already stay allowed: their leases are to be renewed.
    if (fresh.size === 0 || seconds.size + fresh.size <= MOST) {
      for (const one of fresh) seconds.add(one);
      return;
    }
    const detail = `a tenant may use ${MOST} different TTLs, in whole seconds, within ${PERIOD_MS / 1_000} s at each instance`;
    throw tooMany("TOO_MANY_REQUESTS", detail, PERIOD_MS - (nowMs - this.#sinceMs));
  }
}
