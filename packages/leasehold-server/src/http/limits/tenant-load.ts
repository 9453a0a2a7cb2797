/**
 * What the requests of one tenant occupy at once, bounded so that they do not delay those of another:
 *
 *   requests in flight     keeps, demands, metrics and waits that send their body, separately
 *   bytes of their bodies  a body is parsed in one go, and nothing else is served meanwhile
 *
 *   tenant a  ████████████████▌ its next one is refused (429)
 *   tenant b  ██▏               served next
 *
 * Small bodies count as requests only: a flood of large ones must not refuse a single renewal. Part of what keeps
 * leases is reserved for keys that have just renewed one, so that a tenant's own renewals of leases that do not
 * exist do not crowd out those of its live ones.
 */
import type { Clock } from "leasehold";
import type { Urgency } from "../route-rules.js";
import type { ServerLimits } from "./limits.js";

/** Requests that are bounded together. Of a wait only its body counts: the wait itself has a limit of its own. */
export type Load = Urgency | "metrics";

/** Bodies up to this size count as requests only, and wait for no turn. */
export const SMALL_BYTES = 16_384;
/** The share of requests that keep leases which only keys with live leases may use. */
const RESERVED = 0.25;
/** How long a renewal counts as just now: leases of up to an hour are renewed within it, usually much sooner. */
const RECENT_MS = 1_200_000;
/** Scrapes share one reading, so few need to be served at once. */
const METRICS = 4;

interface Occupied {
  requests: number;
  bytes: number;
}

const NOTHING: Readonly<Occupied> = { requests: 0, bytes: 0 };

type Limits = Pick<ServerLimits, "tenantInFlight" | "tenantBodyBytes" | "allBodyBytes">;

export class TenantLoads {
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #loads = new Map<string, Occupied>();
  /** When each key has last renewed a live lease. */
  readonly #renewed = new Map<string, number>();
  #bytes = 0;

  constructor(clock: Clock, limits: Limits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /**
   * @param tenant null: callers cannot be distinguished, and only the sum of all bodies is bounded
   * @returns the function to call when the request is answered; a text: why it is refused
   */
  enter(
    tenant: string | null,
    load: Load,
    { actor, bytes }: { readonly actor: string; readonly bytes: number },
  ): (() => void) | string {
    const large = bytes > SMALL_BYTES ? bytes : 0;
    const refused = this.#refusal(tenant, load, actor, large);
    if (refused !== null) return refused;
    const key = `${load} ${tenant}`;
    const occupied = this.#loads.get(key) ?? { requests: 0, bytes: 0 };
    this.#loads.set(key, occupied);
    occupied.requests += 1;
    occupied.bytes += large;
    this.#bytes += large;
    return () => {
      occupied.requests -= 1;
      occupied.bytes -= large;
      this.#bytes -= large;
      if (occupied.requests === 0) this.#loads.delete(key);
    };
  }

  /** Notes that a key has renewed a live lease. */
  noteRenewed(actor: string): void {
    this.#renewed.set(actor, this.#clock.monotonic());
  }

  /** Drops what is no longer recent. */
  forget(): void {
    const sinceMs = this.#clock.monotonic() - RECENT_MS;
    for (const [actor, atMs] of this.#renewed) if (atMs < sinceMs) this.#renewed.delete(actor);
  }

  #refusal(tenant: string | null, load: Load, actor: string, bytes: number): string | null {
    const { tenantInFlight, tenantBodyBytes, allBodyBytes } = this.#limits;
    if (bytes > 0 && allBodyBytes !== null && this.#bytes + bytes > allBodyBytes) {
      return `the bodies that this instance is reading have ${allBodyBytes} bytes together`;
    }
    if (tenant === null) return null;
    const before = this.#loads.get(`${load} ${tenant}`) ?? NOTHING;
    if (tenantInFlight !== null) {
      const most = this.#mostRequests(load, actor, tenantInFlight);
      if (before.requests >= most) {
        return `this tenant has ${most} such requests in flight at this instance, as many as it may`;
      }
    }
    if (tenantBodyBytes === null || bytes === 0) return null;
    // One body of the largest size is always admitted.
    if (before.bytes === 0 || before.bytes + bytes <= tenantBodyBytes) return null;
    return `the bodies of this tenant's requests in flight may have ${tenantBodyBytes} bytes together`;
  }

  #mostRequests(load: Load, actor: string, tenantInFlight: number): number {
    if (load === "metrics") return METRICS;
    if (load !== "keeps") return tenantInFlight;
    const renewedMs = this.#renewed.get(actor) ?? -Infinity;
    const isLive = this.#clock.monotonic() - renewedMs <= RECENT_MS;
    return isLive ? tenantInFlight : Math.ceil(tenantInFlight * (1 - RESERVED));
  }
}

/** The size of a request's body: as declared, or the most that it may have. */
export function bodyBytesOf(headers: Headers, most: number): number {
  if (headers.has("transfer-encoding")) return most;
  const declared = Number(headers.get("content-length") ?? 0);
  return declared <= most ? declared : most;
}
