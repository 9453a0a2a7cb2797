/** Limits of an instance, and what a tenant may have that has no limits of its own. */

import { InvalidOptionError } from "leasehold";
import { type Capabilities, checkInteger, checkKnown } from "leasehold/internal";
import { BOUNDS } from "leasehold/internal/wire";

/** How much an instance accepts of its callers. All have defaults; `createApp({ limits })` changes some. */
export interface ServerLimits {
  /** The shortest TTL. Default 1,000 ms: shorter ones do not survive the latency of distant clients. */
  readonly shortestTtlMs: number;
  /** The longest TTL. Default 3,600,000 ms: longer work renews, so that a crash does not block for long. */
  readonly longestTtlMs: number;
  /**
   * Maximum number of concurrent requests whose bodies have arrived, without renewals, releases and waits; one tenant
   * may have half of them. Default 1,000.
   */
  readonly inFlight: number;
  /**
   * Longest acceptable queueing delay, in milliseconds. While such requests delay each other for longer,
   * the instance admits fewer; while the event loop is this late, it admits none, because renewals are as
   * late. Default 250, a quarter of the shortest TTL; null: no adaptation.
   */
  readonly lateMs: number | null;
  /**
   * Maximum number of claims and waits for results of one tenant that are under way. Default 2,000.
   */
  readonly waiters: number;
  /** Maximum number of event streams of one tenant. Default 2,000. */
  readonly streams: number;
  /** Maximum number of live leases of a tenant without a limit of its own. Default null: unlimited. */
  readonly leases: number | null;
  /** Maximum number of unfinished tasks of a tenant without a limit of its own. Default null: unlimited. */
  readonly tasks: number | null;
  /**
   * Maximum number of lease records of a tenant, live and ended, for each lease of its limit, and 10,000 at least.
   * An ended lease leaves a record for a week. Default 100; null: unlimited, as for a tenant without a limit of leases.
   */
  readonly recordsPerLease: number | null;
  /**
   * Maximum number of tasks of a tenant, ended ones included, for each task of its limit, and 10,000 at least.
   * Default null: unlimited, because an ended task stays until it is deleted.
   */
  readonly recordsPerTask: number | null;
  /**
   * Requests per second of a tenant at this instance, if it has no limit of its own. Large ones count as several. Renewals
   * and releases have a limit ten times as high. Default 1,000; null: unlimited.
   */
  readonly ratePerSecond: number | null;
  /**
   * Largest body of a request, at most 4 MiB. Default 256 KiB: while a body is parsed, nothing else is served, and
   * the worst JSON of this size takes some 10 ms. GET /v1/capabilities announces it.
   */
  readonly bodyBytes: number;
  /**
   * Maximum number of requests of one tenant in flight: of renewals and releases, of claims whose bodies have not
   * arrived, and of all others, each. Default 256; null: unlimited. Only tenants with keys can be distinguished.
   */
  readonly tenantInFlight: number | null;
  /**
   * Maximum number of reads of one tenant in the store at once whose cost grows with what it has stored: counts, and lists with filters.
   * Default 1: each may occupy a processor of the database. Null: unlimited.
   */
  readonly tenantScans: number | null;
  /** Bytes of the bodies of one tenant's requests in flight. Default 1 MiB; null: unlimited. */
  readonly tenantBodyBytes: number | null;
  /**
   * Bytes of all bodies in flight. Default 16 MiB: parsed, the worst JSON needs twenty times as much memory. Null:
   * unlimited.
   */
  readonly allBodyBytes: number | null;
}

/**
 * The limits of an instance where `createApp` is given none. {@link ServerLimits} states the reason of each.
 * @example
 * ```ts
 * import { DEFAULT_LIMITS } from "leasehold-server";
 *
 * console.log({ limits: { ...DEFAULT_LIMITS, inFlight: 2 * DEFAULT_LIMITS.inFlight } });
 * ```
 */
export const DEFAULT_LIMITS: ServerLimits = {
  shortestTtlMs: 1_000,
  longestTtlMs: 3_600_000,
  inFlight: 1_000,
  lateMs: 250,
  waiters: 2_000,
  streams: 2_000,
  leases: null,
  tasks: null,
  recordsPerLease: 100,
  recordsPerTask: null,
  ratePerSecond: 1_000,
  bodyBytes: 256 * 1_024,
  tenantInFlight: 256,
  tenantScans: 1,
  tenantBodyBytes: 1_024 * 1_024,
  allBodyBytes: 16 * 1_024 * 1_024,
};

/** Without them, every request would be refused, or none could be served. The others may be null. */
const REQUIRED: ReadonlySet<string> = new Set([
  "shortestTtlMs",
  "longestTtlMs",
  "inFlight",
  "waiters",
  "streams",
  "bodyBytes",
]);

/** @throws InvalidOptionError */
export function resolveLimits(limits: Partial<ServerLimits> = {}): ServerLimits {
  checkKnown(limits, { ...DEFAULT_LIMITS });
  const resolved = { ...DEFAULT_LIMITS, ...limits };
  for (const [name, value] of Object.entries(resolved)) {
    if (value === null && !REQUIRED.has(name)) continue;
    if (value === null) {
      const optional = Object.keys(resolved).filter((other) => !REQUIRED.has(other));
      const message = `must be a number: no limit (none) is for ${optional.join(", ")}`;
      throw new InvalidOptionError(`limits.${name}`, message);
    }
    checkInteger(`limits.${name}`, value, 1, Number.MAX_SAFE_INTEGER);
  }
  checkInteger("limits.bodyBytes", resolved.bodyBytes, BOUNDS.bodyBytes, BOUNDS.payloadBodyBytes);
  const { shortestTtlMs, longestTtlMs } = resolved;
  if (longestTtlMs < shortestTtlMs) {
    const least = `must be at least shortestTtlMs, which is ${shortestTtlMs}`;
    throw new InvalidOptionError("limits.longestTtlMs", `${least}, not ${longestTtlMs}`);
  }
  return resolved;
}

/** The TTLs that the server accepts, within those of the store. */
export function servedTtl(
  ttl: Capabilities["ttl"],
  { shortestTtlMs, longestTtlMs }: ServerLimits,
): Capabilities["ttl"] {
  const minMs = Math.max(shortestTtlMs, ttl.minMs);
  return { ...ttl, minMs, maxMs: Math.max(minMs, Math.min(longestTtlMs, ttl.maxMs)) };
}
