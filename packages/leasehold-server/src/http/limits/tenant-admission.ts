/**
 * Admits the requests of callers with keys: by the rate of each key and by what each tenant occupies. A request costs
 * what it makes this instance do, not one:
 *
 *   demands       1 + 1 per 4 KiB of body + 1 per 10 items        of `ratePerSecond`
 *   keeps         1 + 10 per 4 KiB of body + 1 per 10 items       of ten times as much
 *
 * The number of items is known only when the body has been parsed, and is charged afterwards: the key then owes it.
 */
import type { Clock } from "leasehold";
import type { Caller } from "../auth/caller.js";
import { tooMany } from "../problems.js";
import type { Urgency } from "./admission.js";
import { Rates, type ServerLimits, type TenantsLimits } from "./limits.js";
import { bodyBytesOf, type Load, TenantLoads } from "./tenant-load.js";

/** A caller renews each lease that it acquires several times within each TTL. */
const KEEPING_RATIO = 10;
const BYTES_A_TOKEN = 4_096;
const ITEMS_A_TOKEN = 10;
const RETRY_MS = 1_000;

export interface Arriving {
  readonly caller: Caller;
  readonly urgency: Urgency;
  readonly path: string;
  readonly headers: Headers;
}

export class TenantAdmission {
  readonly #limits: ServerLimits;
  readonly #tenantsLimits: Pick<TenantsLimits, "of">;
  readonly #rates: Rates;
  readonly #loads: TenantLoads;

  constructor(clock: Clock, limits: ServerLimits, tenantsLimits: Pick<TenantsLimits, "of">) {
    this.#limits = limits;
    this.#tenantsLimits = tenantsLimits;
    this.#rates = new Rates(clock);
    this.#loads = new TenantLoads(clock, limits);
  }

  /**
   * @returns the function to call when the request is answered, with the number of items in its body
   * @throws TOO_MANY_REQUESTS
   */
  async enter({ caller, urgency, path, headers }: Arriving): Promise<(items: number) => void> {
    const bytes = bodyBytesOf(headers, this.#limits.bodyBytes);
    const charge = await this.#checkRate(caller, urgency, bytes);
    const leave =
      urgency === "waits" ? () => {} : this.#occupy(caller, loadOf(urgency, path), bytes);
    return (items) => {
      leave();
      charge(items);
    };
  }

  /** Notes that a caller has renewed a live lease. */
  noteRenewed({ actor }: Caller): void {
    this.#loads.noteRenewed(actor);
  }

  forget(): void {
    this.#rates.forget();
    this.#loads.forget();
  }

  /** Renewals and releases have a budget of their own, so that other requests cannot use it up. */
  async #checkRate(
    { namespace, actor, keyId }: Caller,
    urgency: Urgency,
    bytes: number,
  ): Promise<(items: number) => void> {
    // Without keys, callers cannot be distinguished.
    if (keyId === null) return () => {};
    const { ratePerSecond } = await this.#tenantsLimits.of(namespace);
    if (ratePerSecond === null) return () => {};
    const keeps = urgency === "keeps";
    const ratio = keeps ? KEEPING_RATIO : 1;
    const client = `${keeps ? "keeps" : "demands"} ${actor}`;
    const cost = 1 + ratio * Math.floor(bytes / BYTES_A_TOKEN);
    const waitMs = this.#rates.take(client, ratio * ratePerSecond, cost);
    if (waitMs === 0) {
      return (items) => this.#rates.charge(client, Math.floor(items / ITEMS_A_TOKEN));
    }
    const detail = `this key may send ${ratePerSecond} requests per second; large ones count as several`;
    throw tooMany("TOO_MANY_REQUESTS", detail, waitMs);
  }

  #occupy({ namespace, actor, keyId }: Caller, load: Load, bytes: number): () => void {
    const tenant = keyId === null ? null : namespace;
    const entered = this.#loads.enter(tenant, load, { actor, bytes });
    if (typeof entered !== "string") return entered;
    throw tooMany("TOO_MANY_REQUESTS", `${entered}: retry in 1 s`, RETRY_MS);
  }
}

function loadOf(urgency: Exclude<Urgency, "waits">, path: string): Load {
  return path.endsWith("/metrics") ? "metrics" : urgency;
}
