/** What one instance takes on, and what of it one tenant or one key may have. */

import type { Clock } from "leasehold";
import {
  type Capabilities,
  type Control,
  checkInteger,
  checkKnown,
  type LimitStore,
  NO_LIMITS,
  type TenantLimits,
  withTimeout,
} from "leasehold/internal";

export interface ServerLimits {
  /** Shorter leases are refused: 1,000 ms, below which networks are too coarse for clients far away. */
  readonly shortestTtlMs: number;
  /** Longer leases are refused: 3,600,000 ms; work of hours renews, so that a crash costs minutes. */
  readonly longestTtlMs: number;
  /** At most so many requests at once wait for a store, but for those that keep what is held: 1,000. */
  readonly inFlight: number;
  /**
   * There are fewer such requests at once while they wait for each other for longer than this, in
   * milliseconds, and none while the event loop comes round this much too late: renewals wait as long.
   * Default 250, a quarter of the shortest ttl; null: neither counts.
   */
  readonly lateMs: number | null;
  /** Claims that wait and event streams of one tenant. Default 1,000. */
  readonly waiters: number;
  /** Live leases of a tenant that has no limit of its own; null: any number, the default. */
  readonly leases: number | null;
  /** Unfinished tasks of a tenant that has no limit of its own; null: any number, the default. */
  readonly tasks: number | null;
  /**
   * Requests per second of one key at this instance, where its tenant has no limit of its own; ten
   * times as many that keep what is held. Default 1,000; null: any number.
   */
  readonly ratePerSecond: number | null;
}

export const DEFAULT_LIMITS: ServerLimits = {
  shortestTtlMs: 1_000,
  longestTtlMs: 3_600_000,
  inFlight: 1_000,
  lateMs: 250,
  waiters: 1_000,
  leases: null,
  tasks: null,
  ratePerSecond: 1_000,
};

/** Of which there may be any number. The others an instance cannot do without. */
const UNLIMITED: ReadonlySet<string> = new Set(["lateMs", "leases", "tasks", "ratePerSecond"]);

/** @throws InvalidOptionError */
export function resolveLimits(limits: Partial<ServerLimits> = {}): ServerLimits {
  checkKnown(limits, {
    shortestTtlMs: true,
    longestTtlMs: true,
    inFlight: true,
    lateMs: true,
    waiters: true,
    leases: true,
    tasks: true,
    ratePerSecond: true,
  });
  const resolved = { ...DEFAULT_LIMITS, ...limits };
  for (const [name, value] of Object.entries(resolved)) {
    if (value === null && UNLIMITED.has(name)) continue;
    checkInteger(`limits.${name}`, value, 1, Number.MAX_SAFE_INTEGER);
  }
  return resolved;
}

/** What of a store's durations is served. */
export function servedTtl(
  ttl: Capabilities["ttl"],
  { shortestTtlMs, longestTtlMs }: ServerLimits,
): Capabilities["ttl"] {
  const minMs = Math.max(shortestTtlMs, ttl.minMs);
  return { ...ttl, minMs, maxMs: Math.max(minMs, Math.min(longestTtlMs, ttl.maxMs)) };
}

/** Limits are read again after this long: what an admin has set takes effect within it. */
const FRESH_MS = 5_000;
/** No longer is a reading waited for: renewals are among those who wait. */
const READ_MS = 250;

/** The limits of tenants: their own, or else the server's. */
export class TenantsLimits {
  readonly #server: ServerLimits;
  readonly #store: LimitStore | undefined;
  readonly #clock: Clock;
  readonly #read = new Map<
    string,
    { readonly limits: Promise<TenantLimits>; readonly atMs: number }
  >();

  constructor(server: ServerLimits, control: Control | undefined, clock: Clock) {
    this.#server = server;
    this.#store = control?.limits;
    this.#clock = clock;
  }

  async of(namespace: string): Promise<TenantLimits> {
    const own = await this.#ownOf(namespace);
    const { leases, tasks, ratePerSecond } = this.#server;
    return {
      leases: own.leases ?? leases,
      tasks: own.tasks ?? tasks,
      ratePerSecond: own.ratePerSecond ?? ratePerSecond,
    };
  }

  #ownOf(namespace: string): Promise<TenantLimits> {
    if (!this.#store) return Promise.resolve(NO_LIMITS);
    const nowMs = this.#clock.monotonic();
    const known = this.#read.get(namespace);
    if (known && nowMs - known.atMs < FRESH_MS) return known.limits;
    // A limit that cannot be read is that of before: it must not stop those who hold something.
    const before = known?.limits ?? Promise.resolve(NO_LIMITS);
    const reading = this.#store.read(namespace);
    const asBefore = () => before;
    const limits = withTimeout(this.#clock, READ_MS, reading, asBefore, { background: true }).catch(
      asBefore,
    );
    this.#read.set(namespace, { limits, atMs: nowMs });
    // What comes later than that counts from then on.
    const late = () => this.#read.set(namespace, { limits: reading, atMs: nowMs });
    reading.then(late, () => {});
    return limits;
  }
}

/** So many requests at once of one who has asked for nothing for a second. */
const BURST_S = 1;

/** How often each may ask: a bucket that fills by `ratePerSecond` and holds a second's worth. */
export class Rates {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes one of `who`'s requests; 0, or how long until there is one again, in milliseconds. */
  take(who: string, ratePerSecond: number): number {
    const nowMs = this.#clock.monotonic();
    // Of a rate below one a second's worth would never let anybody in.
    const most = Math.max(1, ratePerSecond * BURST_S);
    const before = this.#buckets.get(who) ?? { tokens: most, atMs: nowMs };
    const filled = before.tokens + ((nowMs - before.atMs) / 1_000) * ratePerSecond;
    const tokens = Math.min(most, filled);
    const taken = tokens >= 1;
    this.#buckets.set(who, { tokens: taken ? tokens - 1 : tokens, atMs: nowMs });
    return taken ? 0 : Math.ceil(((1 - tokens) / ratePerSecond) * 1_000);
  }

  /** Forgets who has not asked for so long that its bucket is full. */
  forget(): void {
    const nowMs = this.#clock.monotonic();
    for (const [who, { atMs }] of this.#buckets) {
      if (nowMs - atMs > BURST_S * 1_000) this.#buckets.delete(who);
    }
  }
}
