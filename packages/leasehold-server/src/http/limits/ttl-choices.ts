/**
 * How many different TTLs a tenant uses, in whole seconds. On etcd each of them costs a lease of the engine a second, which lives
 * for as long as the TTL: a tenant that renewed 500 leases with random TTLs cost another one 13 of 40 leases.
 */
import type { Clock } from "leasehold";
import { tooMany } from "../problems.js";

/** Programs have one for each kind of work. */
const MOST = 100;
const PERIOD_MS = 10_000;

interface Chosen {
  readonly sinceMs: number;
  readonly seconds: Set<number>;
}

export class TtlChoices {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #chosen = new Map<string, Chosen>();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** @throws TOO_MANY_REQUESTS */
  check(tenant: string, requests: readonly { readonly ttlMs: number }[]): void {
    const nowMs = this.#clock.monotonic();
    let chosen = this.#chosen.get(tenant);
    if (!chosen || nowMs - chosen.sinceMs >= PERIOD_MS) {
      chosen = { sinceMs: nowMs, seconds: new Set() };
      this.#chosen.set(tenant, chosen);
    }
    for (const { ttlMs } of requests) chosen.seconds.add(Math.ceil(ttlMs / 1_000));
    if (chosen.seconds.size <= MOST) return;
    const detail = `a tenant may use ${MOST} different TTLs, in whole seconds, within ${PERIOD_MS / 1_000} s at each instance`;
    throw tooMany("TOO_MANY_REQUESTS", detail, PERIOD_MS - (nowMs - chosen.sinceMs));
  }
}
