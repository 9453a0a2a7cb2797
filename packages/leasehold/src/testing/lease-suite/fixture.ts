/** The fixture of each test: a store, names of its own, and control of time. */

import { grantIdOf, newLeaseId, sleep, systemClock, systemRandom } from "../../env/index.js";
import type {
  AcquireOutcome,
  AcquireRequest,
  Grant,
  Key,
  LeaseStore,
  LeaseView,
  ReleaseOutcome,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  RevokeOutcome,
  RevokeRequest,
  WatchEvent,
} from "../../lease/index.js";
import { only, settled } from "../calls.js";
import type { Expect } from "../framework.js";
import type * as suite from "../suite.js";
import { inTime, until, Watching } from "../waiting.js";

/** A store under test, and the faults that its engine lets a test cause. */
export interface OpenedLeaseStore {
  readonly store: LeaseStore;
  /** Moves the store's clock. Without it the suite waits in real time. */
  advance?(ms: number): Promise<void>;
  /** Restarts the engine and returns a store on the same data; the old store is unusable. */
  restart?(): Promise<LeaseStore>;
  /**
   * Calls `act` before each save of the store, after the load that it was decided on, until the returned function is called; not
   * within `act` itself. Without it, tests act before the call: the store decides in one step, or the suite can't reach in between.
   */
  interleave?(act: () => Promise<void>): () => void;
  /** Locks the key's record in a separate transaction until the returned function is called. */
  lockRow?(key: Key): Promise<() => Promise<void>>;
  /**
   * Whether tests may delete ended records, which affects all namespaces. Set it to `false` if the store
   * holds other data. Default true.
   */
  readonly mayCollect?: boolean;
  /** Ends everything that `open` began; the store itself may be closed already. */
  close(): Promise<void>;
}

/** The store that all tests share, replaced when one of them restarts its engine. */
export interface Subject {
  readonly opened: OpenedLeaseStore;
  store: LeaseStore;
}

export type Need = suite.Need<Fixture>;
export type Section = suite.Section<Fixture>;

export const needsStoreClock: Need = ({ store }) =>
  store.capabilities.clock === "store" ? null : "promised only where the store has a clock";
export const needsAdvance: Need = ({ opened }) =>
  opened.advance ? null : "the store's clock cannot be set by a test";
export const needsRestart: Need = ({ opened }) =>
  opened.restart ? null : "its contents do not outlive it";
export const needsLockRow: Need = ({ opened }) =>
  opened.lockRow ? null : "its records cannot be locked";
export const needsPush: Need = ({ store }) =>
  store.capabilities.watch === "push" ? null : "it declares watch: poll";
export const needsQueue: Need = ({ store }) =>
  store.capabilities.queue ? null : "it declares queue: false";
export const needsCollect: Need = ({ opened }) =>
  opened.mayCollect === false ? "it would delete ended records of all namespaces" : null;

/** Combines needs: the first reason that applies. */
export function every(...needs: readonly Need[]): Need {
  return (fixture) => needs.map((need) => need(fixture)).find((reason) => reason !== null) ?? null;
}

type Acquired = Extract<AcquireOutcome, { status: "acquired" }>;
/** A grant: its request, the answer, and when the request was sent by our clock. */
export type Held = AcquireRequest & { readonly answer: Acquired; readonly sentMs: number };

export class Fixture {
  /** New for each test, because all tests share the store. */
  readonly namespace = `suite-${newLeaseId(systemRandom)}`;
  /** Longer than any test. */
  readonly longTtlMs: number;
  /** Expires soon. */
  readonly shortTtlMs: number;
  readonly #expect: Expect;
  #acquires = 0;

  readonly #subject: Subject;

  constructor(subject: Subject, expect: Expect) {
    this.#subject = subject;
    this.#expect = expect;
    const { minMs, maxMs, stepMs } = this.store.capabilities.ttl;
    this.longTtlMs = Math.min(maxMs, 10 * 60_000);
    this.shortTtlMs = Math.ceil(Math.max(minMs, 250) / stepMs) * stepMs;
  }

  get opened(): OpenedLeaseStore {
    return this.#subject.opened;
  }
  get store(): LeaseStore {
    return this.#subject.store;
  }

  /** Restarts the engine; later calls go to the new store. */
  async restart(): Promise<void> {
    if (this.opened.restart) this.#subject.store = await this.opened.restart();
  }

  key(resource = "resource"): Key {
    return { namespace: this.namespace, resource };
  }

  /** A request for a new grant. */
  request(key: Key, change: Partial<AcquireRequest> = {}): AcquireRequest {
    const { namespace, resource } = key;
    const leaseId = newLeaseId(systemRandom);
    const holder = `holder of ${grantIdOf(leaseId)}`;
    return { namespace, resource, leaseId, holder, ttlMs: this.longTtlMs, ...change };
  }

  /** Acquires a key that is free. */
  async hold(key: Key = this.key(), change: Partial<AcquireRequest> = {}): Promise<Held> {
    const request = this.request(key, change);
    const sentMs = systemClock.monotonic();
    return { ...request, answer: this.expectAcquired(await this.acquire(request)), sentMs };
  }

  expectAcquired(outcome: AcquireOutcome): Acquired {
    this.#expect(outcome).toMatchObject({ status: "acquired" });
    return outcome as Acquired;
  }

  async acquire(request: AcquireRequest): Promise<AcquireOutcome> {
    return only(await this.acquireAll([request]));
  }
  async renew(grant: Grant, ttlMs = this.longTtlMs): Promise<RenewOutcome> {
    return only(await this.renewAll([{ ...grantOf(grant), ttlMs }]));
  }
  async release(grant: Grant): Promise<ReleaseOutcome> {
    return only(await this.releaseAll([grantOf(grant)]));
  }
  async revoke(
    { namespace, resource }: Key,
    free: RevokeRequest["free"],
    expectedToken?: number,
  ): Promise<RevokeOutcome> {
    const request = { namespace, resource, free };
    return only(
      await this.revokeAll([expectedToken === undefined ? request : { ...request, expectedToken }]),
    );
  }
  async view({ namespace, resource }: Key): Promise<LeaseView | null> {
    return only(await this.store.get([{ namespace, resource }]));
  }

  /** Every second call asks for what was replaced: a store may decide the others by a shorter way. */
  acquireAll(requests: readonly AcquireRequest[]): Promise<AcquireOutcome[]> {
    this.#acquires += 1;
    const returnReplaced = this.#acquires % 2 === 0;
    return settled(
      (batch, options) => this.store.acquire(batch, { ...options, returnReplaced }),
      requests,
    );
  }
  renewAll(requests: readonly RenewRequest[]): Promise<RenewOutcome[]> {
    return settled((batch, options) => this.store.renew(batch, options), requests);
  }
  releaseAll(requests: readonly ReleaseRequest[]): Promise<ReleaseOutcome[]> {
    return settled((batch, options) => this.store.release(batch, options), requests);
  }
  revokeAll(requests: readonly RevokeRequest[]): Promise<RevokeOutcome[]> {
    return settled((batch, options) => this.store.revoke(batch, options), requests);
  }

  /**
   * Lets others act between the load and the save of a call, or before it where there is no such moment.
   * @param options.always before each save of the call; default: before the first one
   */
  async between<T>(
    act: () => Promise<void>,
    call: () => Promise<T>,
    { always = false }: { readonly always?: boolean } = {},
  ): Promise<T> {
    if (!this.opened.interleave) {
      await act();
      return call();
    }
    let acted = false;
    /** A store may take an assertion of the others for a failure of its engine. */
    let failure: { readonly error: unknown } | undefined;
    const stop = this.opened.interleave(async () => {
      if (acted && !always) return;
      acted = true;
      await act().catch((error: unknown) => {
        failure = { error };
      });
    });
    const answer = await call().finally(stop);
    if (failure) throw failure.error;
    this.#expect(acted, "the others have acted").toBe(true);
    return answer;
  }

  /** Lets at least `ms` pass on the store's clock. */
  async pass(ms: number): Promise<void> {
    if (this.opened.advance) return this.opened.advance(ms);
    // Timers may fire a little early, and two clocks never run alike.
    await sleep(systemClock, ms * 1.02 + 20);
  }

  /** Waits until the grant has expired and its key is free. */
  async expire(held: Held): Promise<void> {
    await this.pass(held.answer.ttlMs);
    if (this.opened.advance) return;
    const { clock, epsilonMs } = this.store.capabilities;
    const view = await this.view(held);
    // A view shows a revoked grant as ended before its key is free.
    if (clock === "store" || view?.state === "revoked") return this.pass(epsilonMs);
    // Engines without a clock free the key later, usually long before the bound that they state.
    await this.until("the grant has expired", async () => {
      const now = await this.view(held);
      return now?.grantId !== view?.grantId || now?.state !== "live";
    });
  }

  inTime(body: (ttlMs: number) => Promise<boolean>): Promise<void> {
    const { maxMs } = this.store.capabilities.ttl;
    return inTime(this.#expect, { firstMs: this.shortTtlMs, maxMs }, body);
  }

  until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
    return until(this.#expect, what, isTrue);
  }

  /** Watches a namespace; resolves when the subscription is established. */
  async watch(namespace = this.namespace): Promise<LeaseWatching> {
    const watching = new LeaseWatching(this.store, namespace);
    await this.until("the first event of watch", () => watching.events.length > 0);
    return watching;
  }
}

/** The events of a namespace, and the notifications of changes among them. */
export class LeaseWatching extends Watching<WatchEvent> {
  constructor(store: LeaseStore, namespace: string) {
    super((options) => store.watch(namespace, options));
  }

  get changed(): Extract<WatchEvent, { type: "changed" }>[] {
    return this.events.filter((event) => event.type === "changed");
  }
}

/** How many waiters a refused request has before it. */
export function aheadOf(outcome: AcquireOutcome): number | undefined {
  return outcome.status === "held" ? outcome.ahead : undefined;
}

/** Only the fields that identify a grant, without the other fields of its request. */
export function grantOf({ namespace, resource, leaseId }: Grant): Grant {
  return { namespace, resource, leaseId };
}
