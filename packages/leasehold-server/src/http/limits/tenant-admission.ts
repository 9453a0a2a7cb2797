/**
 * Admits the requests of callers with keys: by the rate of each key and by what each tenant occupies. A request costs
 * what it makes this instance do, not one:
 *
 *   demands       1 + 1 per 4 KiB of body + 1 per 10 items        of `ratePerSecond`
 *   keeps         1 + 10 per 4 KiB of body + 1 per 10 items       of ten times as much
 *
 *   metrics       1                                               of 10 a second
 *
 * The number of items is known only when the body has been parsed, and is charged then: the key owes it. What a demand has
 * read costs as much as a body, and is charged when it was sent.
 *
 * One large request begins in several turns of the event loop, when its body has arrived, so that the small ones of other
 * tenants are served in between, however many large ones have arrived: large is a body above 16 KiB, and a smaller one with more than 20
 * items. A key that is refused again and again gets its refusals late: one
 * that retries at once would otherwise keep the instance busy with refusing.
 */
import type { Clock } from "leasehold";
import { sleep } from "leasehold/internal";
import type { Caller } from "../auth/caller.js";
import { tooMany } from "../problems.js";
import type { Answer } from "../request.js";
import type { Urgency } from "../route-rules.js";
import { Rates, type ServerLimits, type TenantsLimits } from "./limits.js";
import { REQUEST_WORK, RequestTurns } from "./request-turns.js";
import { bodyBytesOf, type Load, SMALL_BYTES, TenantLoads } from "./tenant-load.js";
import { UNREAD_BYTES, UnreadAnswers } from "./unread-answers.js";

/** A caller renews each lease that it acquires several times within each TTL. */
const KEEPING_RATIO = 10;
const BYTES_A_TOKEN = 4_096;
const ITEMS_A_TOKEN = 10;
/** The most that an answer costs: some are larger. */
const MOST_ANSWER_BYTES = 1_024 * 1_024;
/** A request with at most so many items waits for no turn. */
const FEW_ITEMS = 20;
const RETRY_MS = 1_000;
/** Of one tenant. A scraper asks every 15 s or so. */
const METRICS_PER_SECOND = 10;
/** Refusals of one key per second that are answered at once, and how late the others are answered. */
const [PROMPT_REFUSALS, LATE_MS] = [20, 1_000];

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
  /** To be called when the request is answered. It is in flight until its answer was sent, where that is known. */
  readonly leave: (answer?: Answer) => void;
}

export class TenantAdmission {
  readonly #limits: ServerLimits;
  readonly #tenantsLimits: Pick<TenantsLimits, "of">;
  readonly #clock: Clock;
  readonly #rates: Rates;
  readonly #loads: TenantLoads;
  readonly #unread = new UnreadAnswers();
  readonly #turns: RequestTurns;

  constructor(clock: Clock, limits: ServerLimits, tenantsLimits: Pick<TenantsLimits, "of">) {
    this.#clock = clock;
    this.#limits = limits;
    this.#tenantsLimits = tenantsLimits;
    this.#rates = new Rates(clock);
    this.#turns = new RequestTurns(clock);
    this.#loads = new TenantLoads(clock, limits);
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
  async delayRefusal({ actor, keyId }: Caller): Promise<void> {
    const isPrompt = keyId === null || this.#rates.take(`refusals ${actor}`, PROMPT_REFUSALS) === 0;
    if (!isPrompt) await sleep(this.#clock, LATE_MS, { background: true });
  }

  async #enter({ caller, urgency, isScrape, headers }: Arriving): Promise<Admitted> {
    const bytes = bodyBytesOf(headers, this.#limits.bodyBytes);
    const load: Load = isScrape ? "metrics" : urgency;
    const owe = await this.#checkRate(caller, load, bytes);
    const tenant = caller.keyId === null ? null : caller.namespace;
    if (tenant !== null && load !== "keeps" && this.#unread.isFull(tenant)) {
      const detail = `this tenant has not read answers of ${UNREAD_BYTES} bytes together: retry in 1 s`;
      throw tooMany("TOO_MANY_REQUESTS", detail, RETRY_MS);
    }
    const waits = load === "waits";
    const left = once(waits && bytes === 0 ? () => {} : this.#occupy(caller, load, bytes));
    const isLarge = bytes > SMALL_BYTES;
    const begun = async (work: number) => {
      // Without keys, a renewal would wait for the flood of others.
      if (tenant !== null) await this.#turns.small(`${load} ${tenant}`, work);
    };
    await begun(REQUEST_WORK);
    const arrive = async () => {
      if (isLarge) await this.#turns.large();
      // The wait itself has limits of its own.
      if (waits) left();
    };
    const begin = async (items: number) => {
      owe(Math.floor(items / ITEMS_A_TOKEN));
      if (items <= FEW_ITEMS) await begun(items);
      else if (!isLarge) await this.#turns.large();
    };
    const leave = (answer?: Answer) => {
      if (!answer || tenant === null) return left();
      this.#unread.add(tenant, answer, () => {
        left();
        const read = Math.min(answer.bytes(), MOST_ANSWER_BYTES);
        if (load === "demands") owe(Math.floor(read / BYTES_A_TOKEN));
      });
    };
    return { arrive, begin, leave };
  }

  /** Notes that a caller has renewed a live lease. */
  noteRenewed({ actor }: Caller): void {
    this.#loads.noteRenewed(actor);
  }

  forget(): void {
    this.#rates.forget();
    this.#loads.forget();
  }

  /**
   * Renewals and releases have a budget of their own, so that other requests cannot use it up.
   * @returns charges the key for more work
   */
  async #checkRate(
    { namespace, actor, keyId }: Caller,
    load: Load,
    bytes: number,
  ): Promise<(tokens: number) => void> {
    // Without keys, callers cannot be distinguished.
    if (keyId === null) return () => {};
    const { ratePerSecond } = await this.#tenantsLimits.of(namespace);
    if (ratePerSecond === null) return () => {};
    if (load === "metrics") {
      const waitMs = this.#rates.take(`metrics ${namespace}`, METRICS_PER_SECOND);
      if (waitMs === 0) return () => {};
      const detail = `this tenant may read the metrics ${METRICS_PER_SECOND} times per second`;
      throw tooMany("TOO_MANY_REQUESTS", detail, waitMs);
    }
    const keeps = load === "keeps";
    const ratio = keeps ? KEEPING_RATIO : 1;
    const client = `${keeps ? "keeps" : "demands"} ${actor}`;
    const cost = 1 + ratio * Math.floor(bytes / BYTES_A_TOKEN);
    const waitMs = this.#rates.take(client, ratio * ratePerSecond, cost);
    if (waitMs === 0) {
      return (tokens) => this.#rates.charge(client, tokens);
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

function once(call: () => void): () => void {
  let called = false;
  return () => {
    if (!called) call();
    called = true;
  };
}
