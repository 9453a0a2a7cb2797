/** The limits of tenants, which the store keeps: what a tenant may store, and how many requests it may send. */
import type { Clock } from "leasehold";
import {
  type Control,
  NO_LIMITS,
  type TenantLimitStore,
  type TenantLimits,
  withTimeout,
} from "leasehold/internal";
import type { ServerLimits } from "../limits/limits.js";

/** Limits are read again after this time, so a change takes effect within it. */
const FRESH_MS = 5_000;
/** Timeout of a read, because renewals wait for it too. */
const READ_MS = 250;

/** The limits of tenants: their own, or the server's. */
export class TenantsLimits {
  readonly #store: TenantLimitStore | undefined;
  readonly #clock: Clock;
  /** The limits of a tenant that has none of its own. */
  readonly #server: Promise<TenantLimits>;
  readonly #with: (own: TenantLimits) => TenantLimits;
  readonly #read = new Map<
    string,
    { readonly limits: Promise<TenantLimits>; readonly atMs: number }
  >();

  constructor(server: ServerLimits, control: Control | undefined, clock: Clock) {
    this.#store = control?.limits;
    this.#clock = clock;
    this.#with = (own) => ({
      leases: own.leases ?? server.leases,
      tasks: own.tasks ?? server.tasks,
      ratePerSecond: own.ratePerSecond ?? server.ratePerSecond,
    });
    this.#server = Promise.resolve(this.#with(NO_LIMITS));
  }

  of(namespace: string): Promise<TenantLimits> {
    if (!this.#store) return this.#server;
    const nowMs = this.#clock.monotonic();
    const known = this.#read.get(namespace);
    if (known && nowMs - known.atMs < FRESH_MS) return known.limits;
    // If the limit cannot be read, the previous one applies: holders must be able to renew.
    const asBefore = () => known?.limits ?? this.#server;
    const reading = this.#store.read(namespace).then(this.#with);
    const limits = withTimeout(this.#clock, READ_MS, reading, asBefore, { background: true }).catch(
      asBefore,
    );
    this.#read.set(namespace, { limits, atMs: nowMs });
    // A read that succeeds after the timeout still updates the cache.
    const late = () => this.#read.set(namespace, { limits: reading, atMs: nowMs });
    reading.then(late, () => {});
    return limits;
  }
}
