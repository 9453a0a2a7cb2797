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
import type { TenantsLimits } from "../quotas/tenants-limits.js";
import type { Answer } from "../request.js";
import type { Urgency } from "../route-rules.js";
import { Buckets } from "./buckets.js";
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

/** A request that was admitted. */
export interface Admitted {
  /**
   * To be called when the body has arrived, before it is parsed. Resolves when it may be parsed, which must follow in
   * the same turn of the event loop.
   */
  readonly arrive: () => Promise<void>;
  /** Charges the items of the parsed body. Resolves when the request may go on: many items wait for a turn. */
  readonly begin: (items: number) => Promise<void>;
  /**
   * Runs work that takes as long as its sender chooses, and charges what it has taken.
   * @throws TOO_MANY_REQUESTS if the tenant owes for earlier work
   */
  readonly measured: <T>(work: () => Promise<T>) => Promise<T>;
  /** To be called when the request is answered. It is in flight until its answer was sent, where that is known. */
  readonly leave: (answer?: Answer) => void;
}

/** The bucket that a request is paid from. */
interface Purse {
  /** @throws TOO_MANY_REQUESTS */
  pay(cost: number): void;
  owe(cost: number): void;
}

/** Without keys, callers cannot be distinguished. */
const UNLIMITED: Purse = { pay() {}, owe() {} };

interface Occupied {
  requests: number;
  bytes: number;
}

export class TenantAdmission {
  readonly #limits: ServerLimits;
  readonly #tenantsLimits: Pick<TenantsLimits, "of">;
  readonly #clock: Clock;
  readonly #buckets: Buckets;
  readonly #turns: RequestTurns;
  /** By load and tenant. */
  readonly #occupied = new Map<string, Occupied>();
  /** The bytes of all bodies in flight. */
  #bytes = 0;
  /** Answers that were not read to their end, by tenant. */
  readonly #unread = new Map<string, Set<Answer>>();

  constructor(clock: Clock, limits: ServerLimits, tenantsLimits: Pick<TenantsLimits, "of">) {
    this.#clock = clock;
    this.#limits = limits;
    this.#tenantsLimits = tenantsLimits;
    this.#buckets = new Buckets(clock);
    this.#turns = new RequestTurns(clock);
  }

  /** The shares of their bounds that are in use; of answers that of the tenant with the most. */
  get used(): { readonly bodies: number; readonly answers: number } {
    const unsent = [...this.#unread.keys()].map((tenant) => this.#unsentOf(tenant));
    return {
      bodies: this.#bytes / (this.#limits.allBodyBytes ?? Infinity),
      answers: Math.max(0, ...unsent) / UNREAD_BYTES,
    };
  }

  /** @throws TOO_MANY_REQUESTS */
  async enter(arriving: Arriving): Promise<Admitted> {
    try {
      return await this.#enter(arriving);
    } catch (error) {
      await this.delayRefusal(arriving.caller);
      throw error;
    }
  }

  /** To be awaited before a refusal is answered. */
  async delayRefusal({ namespace, keyId }: Caller): Promise<void> {
    if (keyId === null) return;
    const isPrompt = this.#buckets.take(`refusals ${namespace}`, PROMPT_REFUSALS) === 0;
    if (!isPrompt) await sleep(this.#clock, LATE_MS, { background: true });
  }

  async #enter({ caller, urgency, isScrape, headers }: Arriving): Promise<Admitted> {
    const bytes = bodyBytesOf(headers, this.#limits.bodyBytes);
    const load: Load = isScrape ? "metrics" : urgency;
    const purse = await this.#purseOf(caller, load);
    purse.pay(1 + (load === "keeps" ? KEEPING_RATIO : 1) * Math.floor(bytes / BYTES_A_TOKEN));
    const tenant = caller.keyId === null ? null : caller.namespace;
    if (tenant !== null && load !== "keeps" && this.#unsentOf(tenant) >= UNREAD_BYTES) {
      throw refusal("bytes", `this tenant has not read answers of ${UNREAD_BYTES} bytes together`);
    }
    const waits = load === "waits";
    const left = once(waits && bytes === 0 ? () => {} : this.#occupy(tenant, load, bytes));
    const isLarge = bytes > SMALL_BYTES;
    const begun = async (work: number) => {
      // Without keys, a renewal would wait for the flood of others.
      if (tenant !== null) await this.#turns.small(`${load} ${tenant}`, work);
    };
    await begun(REQUEST_WORK);
    return {
      arrive: async () => {
        if (isLarge) await this.#turns.large();
        // The wait itself has limits of its own.
        if (waits) left();
      },
      begin: async (items) => {
        purse.owe(Math.floor(items / ITEMS_A_TOKEN));
        if (items <= FEW_ITEMS) await begun(items);
        else if (!isLarge) await this.#turns.large();
      },
      measured: async (work) => {
        purse.pay(0);
        const sinceMs = this.#clock.monotonic();
        try {
          return await work();
        } finally {
          purse.owe(TOKENS_A_MS * (this.#clock.monotonic() - sinceMs));
        }
      },
      leave: (answer) => {
        if (!answer || tenant === null) return left();
        this.#noteUnread(tenant, answer, () => {
          left();
          const read = Math.min(answer.bytes(), MOST_ANSWER_BYTES);
          if (load === "demands") purse.owe(Math.floor(read / BYTES_A_TOKEN));
        });
      },
    };
  }

  /** Requests that keep leases have a bucket of their own, so that others cannot use it up. */
  async #purseOf({ namespace, keyId }: Caller, load: Load): Promise<Purse> {
    if (keyId === null) return UNLIMITED;
    const { ratePerSecond } = await this.#tenantsLimits.of(namespace);
    if (ratePerSecond === null) return UNLIMITED;
    const [name, perSecond, what] =
      load === "metrics"
        ? ["metrics", METRICS.perSecond, "reads of the metrics"]
        : load === "keeps"
          ? ["keeps", KEEPING_RATIO * ratePerSecond, "requests that keep leases"]
          : ["demands", ratePerSecond, "requests"];
    const bucket = `${name} ${namespace}`;
    return {
      pay: (cost) => {
        const waitMs = this.#buckets.take(bucket, { perSecond }, cost);
        if (waitMs === 0) return;
        const detail = `this tenant may send ${perSecond} ${what} per second; large ones count as several`;
        throw tooMany("rate", detail, waitMs);
      },
      owe: (cost) => this.#buckets.charge(bucket, cost),
    };
  }

  /**
   * @param tenant null: callers cannot be distinguished, and only the sum of all bodies is bounded
   * @returns the function to call when the request is answered
   * @throws TOO_MANY_REQUESTS
   */
  #occupy(tenant: string | null, load: Load, bytes: number): () => void {
    const large = bytes > SMALL_BYTES ? bytes : 0;
    const key = `${load} ${tenant}`;
    const known = this.#occupied.get(key);
    const occupied = known ?? { requests: 0, bytes: 0 };
    this.#checkRoom(tenant, load, occupied, large);
    if (!known) this.#occupied.set(key, occupied);
    occupied.requests += 1;
    occupied.bytes += large;
    this.#bytes += large;
    return () => {
      occupied.requests -= 1;
      occupied.bytes -= large;
      this.#bytes -= large;
      if (occupied.requests === 0) this.#occupied.delete(key);
    };
  }

  /** @throws TOO_MANY_REQUESTS if there is no room for another request */
  #checkRoom(tenant: string | null, load: Load, occupied: Occupied, bytes: number): void {
    const { tenantInFlight, tenantBodyBytes, allBodyBytes } = this.#limits;
    if (bytes > 0 && allBodyBytes !== null && this.#bytes + bytes > allBodyBytes) {
      const why = `the bodies that this instance is reading have ${allBodyBytes} bytes together`;
      throw refusal("bytes", why);
    }
    if (tenant === null) return;
    const most = load === "metrics" ? METRICS.inFlight : (tenantInFlight ?? Infinity);
    if (occupied.requests >= most) {
      const why = `this tenant has ${most} such requests in flight at this instance, as many as it may`;
      throw refusal("in_flight", why);
    }
    // One body of the largest size is always admitted.
    if (bytes === 0 || occupied.bytes === 0 || tenantBodyBytes === null) return;
    if (occupied.bytes + bytes <= tenantBodyBytes) return;
    const why = `the bodies of this tenant's requests in flight may have ${tenantBodyBytes} bytes together`;
    throw refusal("bytes", why);
  }

  #unsentOf(tenant: string): number {
    let bytes = 0;
    for (const { unsent } of this.#unread.get(tenant) ?? []) bytes += unsent();
    return bytes;
  }

  /** Counts an answer until it ends. */
  #noteUnread(tenant: string, answer: Answer, ended: () => void): void {
    const answers = this.#unread.get(tenant) ?? new Set();
    this.#unread.set(tenant, answers.add(answer));
    answer.onEnd(() => {
      answers.delete(answer);
      if (answers.size === 0) this.#unread.delete(tenant);
      ended();
    });
  }
}

/** The size of a request's body: as declared, or the most that it may have. */
function bodyBytesOf(headers: Headers, most: number): number {
  if (headers.has("transfer-encoding")) return most;
  const declared = Number(headers.get("content-length") ?? 0);
  return declared <= most ? declared : most;
}

function refusal(scarce: "in_flight" | "bytes", why: string): ProblemError {
  return tooMany(scarce, `${why}: retry in 1 s`, RETRY_MS);
}

function once(call: () => void): () => void {
  let called = false;
  return () => {
    if (!called) call();
    called = true;
  };
}
