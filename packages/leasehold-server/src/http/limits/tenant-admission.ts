/**
 * Admits the requests of callers with keys, by what their tenant uses and occupies:
 *
 *   cost                   one bucket for requests that keep leases, and one for all others
 *     demands, waits       1 + 1 per 4 KiB of body + 1 per 10 items + 1 per 4 KiB of answer      of `ratePerSecond`
 *                          + 10 per millisecond of the thread, where the sender chooses how long
 *     keeps                1 + 10 per 4 KiB of body + 1 per 10 items                             of ten times as much
 *     metrics              1                                                                     of 10 a second
 *   in flight              keeps, demands, metrics and waits that send their body, each
 *   bytes                  of bodies in flight, and of answers that wait to be read
 *
 *   tenant a  ████████████████▌ its next one is refused (429)
 *   tenant b  ██▏               served next
 *
 * What is known only later, such as the items of a body and the size of an answer, is charged then: the tenant owes it. A body
 * up to 16 KiB counts as a request only: a flood of large ones must not refuse a single renewal.
 *
 * One large request begins in several turns of the event loop, when its body has arrived, so that the small ones of other
 * tenants are served in between, however many large ones have arrived: large is a body above 16 KiB, and a smaller one with
 * more than 20 items. A tenant that is refused again and again gets its refusals late: one that retries at once would
 * otherwise keep the instance busy with refusing.
 */
import type { Clock } from "leasehold";
import { sleep } from "leasehold/internal";
import type { Caller } from "../auth/caller.js";
import { type ProblemError, tooMany } from "../problems.js";
import type { Answer } from "../request.js";
import type { Urgency } from "../route-rules.js";
import { Bucket, type Rate } from "./buckets.js";
import type { ServerLimits } from "./limits.js";
import { REQUEST_WORK, RequestTurns } from "./request-turns.js";

/** A caller renews each lease that it acquires several times within each TTL. */
const KEEPING_RATIO = 10;
const BYTES_A_TOKEN = 4_096;
const ITEMS_A_TOKEN = 10;
/** At the default rate, a tenant has a tenth of the thread. */
const TOKENS_A_MS = 10;
/** The most that an answer costs: some are larger. */
const MOST_ANSWER_BYTES = 1_024 * 1_024;
/** Answers of one tenant that wait to be read fill the memory: four of the largest, which are claims. @internal */
export const UNREAD_BYTES = 64 * 1_024 * 1_024;
/** Bodies up to this size count as requests only, and wait for no turn. */
const SMALL_BYTES = 16_384;
/** A request with at most so many items waits for no turn. */
const FEW_ITEMS = 20;
const RETRY_MS = 1_000;
/** A tenant may read the metrics so often: a scraper asks every 15 s or so, and scrapes share one reading. */
const METRICS = { perSecond: 10, inFlight: 4 };
/** Refusals of one tenant per second that are answered at once, and how late the others are answered. */
const [PROMPT_REFUSALS, LATE_MS] = [{ perSecond: 20 }, 1_000];

/** Requests that are bounded together. Of a wait only its body counts: the wait itself has a limit of its own. */
type Load = Urgency | "metrics";

export interface Arriving {
  readonly caller: Caller;
  readonly urgency: Urgency;
  /** Whether it reads the metrics. */
  readonly isScrape: boolean;
  readonly headers: Headers;
}

/** What a tenant has under way of one load. */
interface Use {
  /** What the requests are paid from. */
  readonly bucket: Bucket;
  requests: number;
  /** How many bytes their large bodies have together. */
  largeBytes: number;
}

/** Kept once created: only tenants with keys exist, and an idle one costs nothing. */
class TenantUse {
  /** Requests that keep leases have a bucket of their own, so that others cannot use it up. */
  readonly of: Readonly<Record<Load, Use>>;
  readonly refusals: Bucket;
  /** Answers that were not read to their end. */
  readonly unread = new Set<Answer>();

  constructor(clock: Clock) {
    const use = (bucket = new Bucket(clock)) => ({ bucket, requests: 0, largeBytes: 0 });
    const demands = use();
    this.of = { keeps: use(), demands, waits: use(demands.bucket), metrics: use() };
    this.refusals = new Bucket(clock);
  }

  get unsentBytes(): number {
    let bytes = 0;
    for (const { unsent } of this.unread) bytes += unsent();
    return bytes;
  }
}

/** What the store keeps for tenants. */
interface Rates {
  readonly of: (namespace: string) => Promise<{ readonly ratePerSecond: number | null }>;
}

interface Paid extends Rate {
  readonly what: string;
}

interface Shared {
  readonly clock: Clock;
  readonly turns: RequestTurns;
  /** The bytes of all large bodies in flight. */
  largeBytes: number;
}

/** A request that was admitted. */
export class Admitted {
  readonly #shared: Shared;
  readonly #tenant: TenantUse | null;
  readonly #load: Load;
  /** Null: what it costs is not bounded. */
  readonly #paid: Paid | null;
  readonly #largeBytes: number;
  #isIn = false;

  constructor(
    shared: Shared,
    tenant: TenantUse | null,
    { load, largeBytes, paid }: { load: Load; largeBytes: number; paid: Paid | null },
  ) {
    this.#shared = shared;
    this.#tenant = tenant;
    this.#load = load;
    this.#paid = paid;
    this.#largeBytes = largeBytes;
  }

  /** @throws TOO_MANY_REQUESTS */
  pay(cost: number): void {
    const waitMs = (this.#paid && this.#use?.bucket.take(this.#paid, cost)) ?? 0;
    if (waitMs === 0) return;
    const rate = `${this.#paid?.perSecond} ${this.#paid?.what} per second`;
    throw tooMany("rate", `this tenant may send ${rate}; large ones count as several`, waitMs);
  }

  /** It is in flight from now on, until it leaves. */
  occupy(): void {
    this.#isIn = true;
    this.#count(1);
  }

  /** As `RequestTurns.small`. Without keys, a renewal would wait for the flood of others. */
  turn(work: number): Promise<void> | undefined {
    return this.#use && this.#shared.turns.small(this.#use, work);
  }

  /**
   * To be called when the body has arrived, before it is parsed. Resolves when it may be parsed, which must follow in
   * the same turn of the event loop.
   */
  async arrive(): Promise<void> {
    if (this.#largeBytes > 0) await this.#shared.turns.large();
    // The wait itself has limits of its own.
    if (this.#load === "waits") this.#leave();
  }

  /** Charges the items of the parsed body. Resolves when the request may go on: many items wait for a turn. */
  async begin(items: number): Promise<void> {
    this.#owe(Math.floor(items / ITEMS_A_TOKEN));
    if (items <= FEW_ITEMS) await this.turn(items);
    else if (this.#largeBytes === 0) await this.#shared.turns.large();
  }

  /**
   * Runs work that takes as long as its sender chooses, and charges what it has taken.
   * @throws TOO_MANY_REQUESTS if the tenant owes for earlier work
   */
  async measured<T>(work: () => Promise<T>): Promise<T> {
    this.pay(0);
    const sinceMs = this.#shared.clock.monotonic();
    try {
      return await work();
    } finally {
      this.#owe(TOKENS_A_MS * (this.#shared.clock.monotonic() - sinceMs));
    }
  }

  /** To be called when the request is answered. It is in flight until its answer was sent, where that is known. */
  leave(answer?: Answer): void {
    const tenant = this.#tenant;
    if (!answer || tenant === null) return this.#leave();
    tenant.unread.add(answer);
    answer.onEnd(() => {
      tenant.unread.delete(answer);
      this.#leave();
      const read = Math.min(answer.bytes(), MOST_ANSWER_BYTES);
      if (this.#load === "demands") this.#owe(Math.floor(read / BYTES_A_TOKEN));
    });
  }

  get #use(): Use | undefined {
    return this.#tenant?.of[this.#load];
  }

  #owe(cost: number): void {
    if (this.#paid && cost > 0) this.#use?.bucket.charge(cost);
  }

  #leave(): void {
    if (this.#isIn) this.#count(-1);
    this.#isIn = false;
  }

  #count(change: 1 | -1): void {
    this.#shared.largeBytes += change * this.#largeBytes;
    const use = this.#use;
    if (!use) return;
    use.requests += change;
    use.largeBytes += change * this.#largeBytes;
  }
}

export class TenantAdmission {
  readonly #limits: ServerLimits;
  readonly #rates: Rates;
  readonly #clock: Clock;
  readonly #shared: Shared;
  readonly #tenants = new Map<string, TenantUse>();

  constructor(clock: Clock, limits: ServerLimits, rates: Rates) {
    this.#clock = clock;
    this.#limits = limits;
    this.#rates = rates;
    this.#shared = { clock, turns: new RequestTurns(clock), largeBytes: 0 };
  }

  /** The shares of their bounds that are in use; of answers that of the tenant with the most. */
  get used(): { readonly bodies: number; readonly answers: number } {
    const unsent = [...this.#tenants.values()].map(({ unsentBytes }) => unsentBytes);
    return {
      bodies: this.#shared.largeBytes / (this.#limits.allBodyBytes ?? Infinity),
      answers: Math.max(0, ...unsent) / UNREAD_BYTES,
    };
  }

  /** @throws TOO_MANY_REQUESTS */
  async enter({ caller, urgency, isScrape, headers }: Arriving): Promise<Admitted> {
    try {
      const load = isScrape ? "metrics" : urgency;
      const bytes = bodyBytesOf(headers, this.#limits.bodyBytes);
      const largeBytes = bytes > SMALL_BYTES ? bytes : 0;
      const tenant = this.#of(caller);
      const rate = tenant && (await this.#rates.of(caller.namespace)).ratePerSecond;
      const paid = rate === null ? null : paidOf(load, rate);
      const admitted = new Admitted(this.#shared, tenant, { load, largeBytes, paid });
      admitted.pay(1 + (load === "keeps" ? KEEPING_RATIO : 1) * Math.floor(bytes / BYTES_A_TOKEN));
      if (load !== "keeps") checkRead(tenant);
      // A wait counts while its body arrives: the wait itself has a limit of its own.
      if (load !== "waits" || bytes > 0) {
        this.#checkRoom(tenant, load, largeBytes);
        admitted.occupy();
      }
      await admitted.turn(REQUEST_WORK);
      return admitted;
    } catch (error) {
      await this.delayRefusal(caller);
      throw error;
    }
  }

  /** To be awaited before a refusal is answered. */
  async delayRefusal(caller: Caller): Promise<void> {
    const isPrompt = (this.#of(caller)?.refusals.take(PROMPT_REFUSALS) ?? 0) === 0;
    if (!isPrompt) await sleep(this.#clock, LATE_MS, { background: true });
  }

  /** Null: callers without keys cannot be distinguished, and only the sum of all bodies is bounded. */
  #of({ namespace, keyId }: Caller): TenantUse | null {
    if (keyId === null) return null;
    let tenant = this.#tenants.get(namespace);
    if (!tenant) {
      tenant = new TenantUse(this.#clock);
      this.#tenants.set(namespace, tenant);
    }
    return tenant;
  }

  /** @throws TOO_MANY_REQUESTS if there is no room for another request */
  #checkRoom(tenant: TenantUse | null, load: Load, largeBytes: number): void {
    const { tenantInFlight, tenantBodyBytes, allBodyBytes } = this.#limits;
    const isLarge = largeBytes > 0;
    if (isLarge && this.#shared.largeBytes + largeBytes > (allBodyBytes ?? Infinity)) {
      const why = `the bodies that this instance is reading have ${allBodyBytes} bytes together`;
      throw refusal("bytes", why);
    }
    if (tenant === null) return;
    const use = tenant.of[load];
    const most = load === "metrics" ? METRICS.inFlight : (tenantInFlight ?? Infinity);
    if (use.requests >= most) {
      const why = `this tenant has ${most} such requests in flight at this instance, as many as it may`;
      throw refusal("in_flight", why);
    }
    // One body of the largest size is always admitted.
    const isAlone = !isLarge || use.largeBytes === 0;
    if (isAlone || use.largeBytes + largeBytes <= (tenantBodyBytes ?? Infinity)) return;
    const why = `the bodies of this tenant's requests in flight may have ${tenantBodyBytes} bytes together`;
    throw refusal("bytes", why);
  }
}
function paidOf(load: Load, ratePerSecond: number): Paid {
  if (load === "metrics") return { perSecond: METRICS.perSecond, what: "reads of the metrics" };
  if (load !== "keeps") return { perSecond: ratePerSecond, what: "requests" };
  return { perSecond: KEEPING_RATIO * ratePerSecond, what: "requests that keep leases" };
}

/** The size of a request's body: as declared, or the most that it may have. */
function bodyBytesOf(headers: Headers, most: number): number {
  if (headers.has("transfer-encoding")) return most;
  const declared = Number(headers.get("content-length") ?? 0);
  return declared <= most ? declared : most;
}

/** @throws TOO_MANY_REQUESTS if it leaves too much of its answers unread */
function checkRead(tenant: TenantUse | null): void {
  if (tenant === null || tenant.unsentBytes < UNREAD_BYTES) return;
  throw refusal("bytes", `this tenant has not read answers of ${UNREAD_BYTES} bytes together`);
}

function refusal(scarce: "in_flight" | "bytes", why: string): ProblemError {
  return tooMany(scarce, `${why}: retry in 1 s`, RETRY_MS);
}
