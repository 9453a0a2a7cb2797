/** A seeded walk of random calls to a store of records, and what each must answer by the port (once/port.ts). */
import { newLeaseId } from "../../env/index.js";
import type { AcquireOutcome } from "../../lease/index.js";
import { type OnceGrant, type OnceStore, type OnceView, resourceOf } from "../../once/port.js";
import { only } from "../calls.js";
import { Choices } from "../choices.js";
import type { Expect } from "../framework.js";

/** Few, so that calls meet. */
const KEYS = ["a", "b", "c"];
const LONG_MS = 600_000;

export interface OnceSite {
  readonly store: OnceStore;
  readonly namespace: string;
  /** A TTL that ends soon. */
  readonly shortMs: number;
  pass(ms: number): Promise<void>;
}

/** What a record must show. */
type Shown = Pick<OnceView, "state" | "value" | "by" | "token" | "failures" | "error"> & {
  /** Whether the next attempt waits. */
  readonly waits: boolean;
};
interface Made extends OnceGrant {
  readonly holder: string;
}

export class OnceWalk {
  readonly #site: OnceSite;
  readonly #expect: Expect;
  readonly #choose: Choices;
  /** All that were ever made: most have ended, and stay in use. */
  readonly #grants: Made[] = [];
  /** The live grant of each key. */
  readonly #held = new Map<string, Made>();
  readonly #records = new Map<string, Shown>();
  /** Keys with a record whose time is over: the store may have it until it is collected. */
  readonly #ended = new Set<string>();
  #count = 0;

  constructor(site: OnceSite, expect: Expect, seed: number) {
    [this.#site, this.#expect, this.#choose] = [site, expect, new Choices(seed)];
  }

  async step(): Promise<void> {
    this.#count += 1;
    const key = this.#choose.pick(KEYS);
    const at = this.#choose.random.float();
    if (at < 0.35) await this.#acquire(key);
    else if (at < 0.4) await this.#release(key);
    else if (at < 0.6) await this.#succeed();
    else if (at < 0.85) await this.#fail();
    else if (at < 0.92) await this.#retry(key);
    else await this.#delete(key);
  }

  /** Every record is there, and says what the last call has made of it. */
  async compareAll(): Promise<void> {
    const { store, namespace } = this.#site;
    for (const key of KEYS) {
      const record = this.#records.get(key) ?? null;
      this.#expect(await this.#shown(key)).toEqual(record);
    }
    const { items } = await store.list({ namespace });
    this.#expect(items.map(({ key }) => key)).toEqual([...this.#records.keys()].sort());
  }

  async #acquire(key: string): Promise<void> {
    const { store, namespace, shortMs } = this.#site;
    const [leaseId, holder] = [newLeaseId(this.#choose.random), `holder ${this.#count}`];
    const isShort = this.#choose.chance(0.1);
    const ttlMs = isShort ? shortMs : LONG_MS;
    const request = { namespace, resource: resourceOf(key), leaseId, holder, ttlMs };
    const outcome: AcquireOutcome = only(await store.leases.acquire([request]));
    this.#expect(outcome.status).toBe(this.#held.has(key) ? "held" : "acquired");
    if (outcome.status !== "acquired") return;
    const grant = { namespace, key, leaseId, holder, token: outcome.token };
    this.#grants.push(grant);
    if (isShort) await this.#site.pass(shortMs);
    else this.#held.set(key, grant);
  }

  async #release(key: string, expected = ["released"]): Promise<void> {
    const held = this.#held.get(key);
    if (!held) return;
    const { namespace, leaseId } = held;
    const request = { namespace, resource: resourceOf(key), leaseId };
    const { status } = only(await this.#site.store.leases.release([request]));
    this.#expect(expected).toContain(status);
    this.#held.delete(key);
  }

  async #succeed(): Promise<void> {
    const { store, shortMs } = this.#site;
    const grant = this.#anyGrant();
    if (!grant) return;
    const keepMs = this.#choose.chance(0.1) ? shortMs : null;
    const outcome = await store.succeed({ ...grantOf(grant), value: this.#count, keepMs });
    const { key, token, holder: by } = grant;
    const [before, isLive] = [this.#records.get(key), this.#isLive(grant)];
    if (before?.state === "done") {
      const own = before.token === token;
      const expected = own ? { status: "recorded" } : { status: "done", by: before.by };
      this.#expect(outcome).toMatchObject(expected);
      // Whether its lease goes on is up to the store. Its holder ends it.
      if (isLive) await this.#release(key, ["released", "notHeld"]);
      return;
    }
    this.#expect(outcome).toEqual({ status: isLive ? "recorded" : "refused" });
    if (!isLive) return;
    this.#held.delete(key);
    const facts = { by, token, value: this.#count, failures: 0, error: null, waits: false };
    this.#records.set(key, { state: "done", ...facts });
    if (keepMs === null) return;
    await this.#site.pass(keepMs);
    this.#records.delete(key);
    this.#ended.add(key);
  }

  async #fail(): Promise<void> {
    const grant = this.#anyGrant();
    if (!grant) return;
    const error = `at ${this.#count}`;
    const maxAttempts = this.#choose.pick([null, 1, 2, 3]);
    const retryDelayMs = this.#choose.pick([0, LONG_MS]);
    const request = { ...grantOf(grant), error, maxAttempts, retryDelayMs };
    const outcome = await this.#site.store.fail(request);
    const { key, token, holder: by } = grant;
    const before = this.#records.get(key);
    const isLive = this.#isLive(grant);
    if (before?.state === "done" || (!isLive && before?.token !== token)) {
      this.#expect(outcome).toEqual({ status: "refused" });
      return;
    }
    const failures = (before?.failures ?? 0) + (isLive ? 1 : 0);
    if (isLive) {
      this.#held.delete(key);
      const state = maxAttempts !== null && failures >= maxAttempts ? "failed" : "failing";
      const waits = state === "failing" && retryDelayMs > 0;
      this.#records.set(key, { state, by, token, value: null, failures, error, waits });
    }
    const { state } = this.#records.get(key) as Shown;
    this.#expect(outcome).toEqual({ status: "recorded", state, failures });
  }

  async #retry(key: string): Promise<void> {
    const { store, namespace } = this.#site;
    const record = this.#records.get(key);
    const isFailure = record !== undefined && record.state !== "done";
    this.#expect(await store.retry({ namespace, key })).toBe(isFailure);
    if (isFailure) this.#records.delete(key);
  }

  async #delete(key: string): Promise<void> {
    const { store, namespace } = this.#site;
    const isDeleted = await store.delete({ namespace, key });
    if (!this.#ended.delete(key)) this.#expect(isDeleted).toBe(this.#records.has(key));
    this.#records.delete(key);
  }

  async #shown(key: string): Promise<Shown | null> {
    const { store, namespace } = this.#site;
    const view = await store.get({ namespace, key });
    if (!view) return null;
    const { state, value, by, token, failures, error, nextInMs } = view;
    return { state, value, by, token, failures, error, waits: nextInMs > 0 };
  }

  #isLive({ key, token }: OnceGrant): boolean {
    return this.#held.get(key)?.token === token;
  }

  /** A recent one rather than an old one. */
  #anyGrant(): Made | undefined {
    return this.#choose.pick(this.#choose.chance(0.7) ? this.#grants.slice(-4) : this.#grants);
  }
}

function grantOf({ namespace, key, leaseId, token }: OnceGrant): OnceGrant {
  return { namespace, key, leaseId, token };
}
