/**
 * One leader among the candidates of a name, by a lease; each term has a fencing token.
 *
 *             lead()            won              resigned, lost, aborted, or the work ended
 *    idle ───────────▶ waiting ─────▶ leading ──────────────────────────────▶ stopping
 *     ▲                 ▲  │                    the term's signal aborts; the        │
 *     │                 │  └ another is named   work drains, then comes the release  │
 *     │                 │    the successor: release, stand aside                    │
 *     │                 └──────────────── a term is over, not the candidacy ────────┤
 *     └──────────────────────────── aborted, or the work threw ─────────────────────┘
 *
 * - The work of one node never overlaps itself: a term begins when all work of the last one has ended,
 *   `lead`'s own and that of `runIfLeader`.
 * - A term that is lost before its work starts has no work.
 * - *Lost* (expired, taken, revoked): trust has ended already, so the work stops at its own pace. Nothing
 *   is released, because the grant may be another node's.
 * - *Paused past the TTL*: `checkAlive()`, and so `runIfLeader`, notices the loss before any timer runs.
 *   Only a guard on the protected side can refuse a write that is already under way: pass it the token.
 * - *Work that does not stop*: this node starts nothing until the work has ended; see Drain.
 * - *A named successor*: before it releases, the leader announces the handover in a separate lease,
 *   `<name>/successor`. Another candidate that wins meanwhile releases and stands aside until that lease
 *   ends. A dead successor delays the election until its expiry. Exclusion never rests on it.
 */

import { jittered, sleep } from "../env/index.js";
import {
  type Abort,
  Aborting,
  type AcquireOptions,
  checkFunction,
  checkKnown,
  checkName,
  checkNumber,
  checkObject,
  checkOptional,
  checkSignal,
  defaultTtlMs,
  type HeldLease,
  HOLDING,
  InvalidOptionError,
  type Lease,
  type LeaseClient,
  logThrownLate,
  lossOr,
  NotLeaderError,
  StaleTokenError,
} from "../lease/index.js";
import { Drain } from "./drain.js";
import { Handover } from "./handover.js";
import { markedAs } from "./leadership.js";
import { type LeaderChange, observeLeader } from "./observer.js";

/** Options of `leasehold.elector`. */
export interface ElectorOptions extends Omit<AcquireOptions, "waitMs" | "signal"> {
  /**
   * Pause before this candidate campaigns again after its work returned, in milliseconds, so that other
   * candidates can lead. Default 1,000.
   */
  retryDelayMs?: number;
  /**
   * How long others stand aside for a successor named by `resign`, in milliseconds. Default 5,000
   * (or the nearest TTL that the store allows): a healthy successor takes over within a round trip; a dead one
   * costs this long.
   */
  handoverMs?: number;
  /**
   * How long the work of a term may take to stop when its signal aborts, in milliseconds. Default 5,000,
   * like a client's. Work that still runs then keeps its lease until the lease expires.
   */
  graceMs?: number;
}

const OPTIONS: Readonly<Record<keyof ElectorOptions, true>> = {
  ...HOLDING,
  retryDelayMs: true,
  handoverMs: true,
  graceMs: true,
};

/** One period of leadership: a lease without the methods that end it. */
export type Term = Pick<
  Lease,
  "holder" | "token" | "grantId" | "signal" | "checkAlive" | "remainingMs" | "onLost"
>;

/** Must stop when `term.signal` aborts. Returning ends the term. */
export type LeaderWork = (term: Term) => void | PromiseLike<void>;

/** Where a candidate is: not standing, waiting to lead, leading, or waiting for its work to stop. */
export type ElectorState = "idle" | "waiting" | "leading" | "stopping";

/** One for all electors: a client may have many, and each of them ends with it. */
const aborting = new Aborting();

/** Why a term's signal aborts when its leader steps down by itself. */
class Resigned extends Error {
  override readonly name = "Resigned";
}

/** `leasehold.elector()` calls it. Apart from the class, whose public type shows no constructor. */
export let electorOver: (leases: LeaseClient, name: string, options?: ElectorOptions) => Elector;

/**
 * One candidate of an election, of which at most one leads at a time. Made by `leasehold.elector(name, options)`.
 * @example
 * ```ts
 * import { connect } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const elector = leasehold.elector("cluster", { ttlMs: 5_000 });
 * const leaving = new AbortController();
 * const work = (term) => {
 *   console.log("leading with token", term.token);
 *   leaving.abort();
 * };
 * await elector.lead(work, { signal: leaving.signal });
 * await leasehold.close();
 * ```
 */
export class Elector {
  static {
    electorOver = (leases, name, options = {}) => new Elector(leases, name, options);
  }

  readonly #leases: LeaseClient;
  readonly #acquire: AcquireOptions;
  readonly #retryDelayMs: number;
  readonly #handover: Handover;
  readonly #drain: Drain;
  readonly #running = new Set<Promise<unknown>>();
  #state: ElectorState = "idle";
  #lease: HeldLease | undefined;
  /** Resolves when the current term has been released. */
  #over: Promise<void> = Promise.resolve();

  private constructor(
    leases: LeaseClient,
    /** The name of the election: a resource. */
    readonly name: string,
    options: ElectorOptions,
  ) {
    checkName("name", name);
    checkKnown(options, OPTIONS);
    const {
      retryDelayMs = 1_000,
      handoverMs = defaultTtlMs(leases.capabilities.ttl, 5_000),
      graceMs = 5_000,
      ...acquire
    } = options;
    checkNumber("retryDelayMs", retryDelayMs, 0, Number.MAX_SAFE_INTEGER);
    checkNumber("graceMs", graceMs, 0, Number.MAX_SAFE_INTEGER);
    // Checks the name and what else a lease is asked with.
    leases.reusableLease(name, acquire);
    const metadata = markedAs("elector", leases, acquire.metadata);
    this.#handover = new Handover(leases, name, handoverMs);
    this.#drain = new Drain(leases, graceMs, "elector");
    this.#leases = leases;
    this.#acquire = { ...acquire, metadata };
    this.#retryDelayMs = retryDelayMs;
  }

  /** What this candidate does now. */
  get state(): ElectorState {
    return this.#state;
  }

  /** The term that this node leads now, as far as its own clocks tell; never stale. */
  get term(): Term | undefined {
    const lease = this.#lease;
    return lease && this.#state === "leading" && lease.checkAlive() ? lease : undefined;
  }

  /**
   * Campaigns, runs the work while leading, and campaigns again after each term, until the signal aborts
   * or the client closes. The work is then asked to stop. The call resolves once the work has ended and
   * the lease is released.
   * @throws the error of the work, which ends the term and the candidacy (a Singleton would start it
   *   again); INVALID_OPTION if this elector campaigns already; STORE_MISCONFIGURED;
   *   STILL_RUNNING when the work has not ended `graceMs` after the signal: its lease is left to expire,
   *   and `state` is `stopping` until it has
   */
  async lead(work: LeaderWork, options: { signal?: AbortSignal } = {}): Promise<void> {
    checkFunction("work", work);
    checkKnown(options, { signal: true });
    if (this.#state !== "idle") {
      throw new InvalidOptionError("lead", "runs already: create an elector for each candidate");
    }
    const { signal = new AbortController().signal } = options;
    checkSignal(signal);
    this.#state = "waiting";
    const leaving = [signal, this.#leases.closing];
    for (const left of leaving) left.addEventListener("abort", this.#drain.look);
    const ended = this.#stand(work, leaving).finally(() => {
      this.#state = "idle";
      for (const left of leaving) left.removeEventListener("abort", this.#drain.look);
    });
    return this.#drain.until(ended, () => leaving.some(({ aborted }) => aborted));
  }

  /**
   * Ends the current term: its work is asked to stop, drains, and the lease is released. With
   * `successor`, other candidates stand aside for that holder (`leases.holder` of its client), and the call
   * waits until it leads or `handoverMs` has passed. The candidacy continues. A no-op while not leading.
   * @throws STORE_UNAVAILABLE if the handover could not be announced: the term continues;
   *   STILL_RUNNING when the work has not ended within `graceMs`: its lease is left to expire
   * @example
   * ```ts
   * import { once } from "node:events";
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const elector = leasehold.elector("cluster");
   * const leaving = new AbortController();
   * await elector.lead(async ({ signal }) => {
   *   const asked = once(signal, "abort");
   *   elector.resign().then(() => leaving.abort());
   *   await asked;
   * }, leaving);
   * await leasehold.close();
   * ```
   */
  async resign(options: { successor?: string } = {}): Promise<void> {
    checkKnown(options, { successor: true });
    const { successor } = options;
    if (successor !== undefined) checkName("successor", successor);
    const lease = this.#lease;
    if (!lease) return;
    const over = this.#over;
    const word =
      successor === undefined || successor === lease.holder
        ? undefined
        : await this.#handover.announce(successor);
    lease.interrupt(new Resigned("the leader resigned"));
    this.#stopping(lease);
    await this.#drain.until(over);
    await word?.taken();
  }

  /**
   * Runs the work if this node leads, under the signal of the term. The term waits for the work to end, so it must
   * stop when the signal aborts.
   * @param work gets the token to pass on to what it writes to
   * @param options.leaderWrite the work writes to what a guard protects: if the guard refuses the token as stale, a
   *   newer leader has written already, and this node steps down at once (LEASE_LOST, reason `taken`). Default false
   * @throws NOT_LEADER, before the work begins; LEASE_LOST if the term ended during the work, whatever that
   *   returns; else what the work threw
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const elector = leasehold.elector("cluster");
   * const leaving = new AbortController();
   * const write = (signal, token) => console.log("write with token", token);
   * await elector.lead(() => elector.runIfLeader(write).then(() => leaving.abort()), leaving);
   * await leasehold.close();
   * ```
   */
  async runIfLeader<T>(
    work: (signal: AbortSignal, token: number) => T | PromiseLike<T>,
    options: { leaderWrite?: boolean } = {},
  ): Promise<T> {
    checkFunction("work", work);
    checkKnown(options, { leaderWrite: true });
    checkOptional("boolean", options, ["leaderWrite"]);
    const lease = this.#lease;
    if (!lease || !this.term) throw new NotLeaderError(this.name);
    const running = (async () => {
      try {
        const value = await work(lease.signal, lease.token);
        lease.checkAlive();
        if (lease.lostError) throw lease.lostError;
        return value;
      } catch (error) {
        if (options.leaderWrite && error instanceof StaleTokenError) lease.lose("taken");
        throw lossOr(error, lease, this.#leases.env.logger);
      }
    })();
    this.#running.add(running);
    const forget = () => this.#running.delete(running);
    running.then(forget, forget);
    return running;
  }

  /**
   * Yields the leader, now and at each change, until the signal aborts. It does not need to campaign.
   * A store with notifications is polled once per TTL while there is a leader, and at most once a second
   * while there is none. Short terms may be skipped; tokens never decrease. While the store is
   * unavailable, it is polled until it answers. Once the lease of the last known leader must have expired by then,
   * a change with `unavailable: true` says that the leader is unknown; the next change says who leads.
   * @throws INVALID_OPTION if `options.signal` is no AbortSignal
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const observing = new AbortController();
   * for await (const { leader } of leasehold.elector("cluster").observe(observing)) {
   *   console.log(leader ?? "no leader yet");
   *   observing.abort();
   * }
   * await leasehold.close();
   * ```
   */
  observe(options: { signal: AbortSignal }): AsyncIterable<LeaderChange> {
    checkObject("options", options);
    checkSignal(options.signal);
    return observeLeader(this.#leases, this.name, options.signal);
  }

  /** One term after the other, until one of the signals aborts. */
  async #stand(work: LeaderWork, leaving: readonly AbortSignal[]): Promise<void> {
    const { env } = this.#leases;
    const campaigns = async ({ signal }: Abort): Promise<never> => {
      signal.addEventListener("abort", () => this.#lease?.interrupt(signal.reason));
      for (;;) {
        const hasReturned = await this.#campaign(work, signal);
        if (!hasReturned) continue;
        await sleep(env.clock, jittered(env.random, this.#retryDelayMs, 0.2), { signal });
      }
    };
    try {
      await aborting.run(leaving, campaigns);
    } catch (error) {
      if (!leaving.some(({ aborted }) => aborted)) throw error;
    }
  }

  /**
   * One term, if it comes to one. Resolves to whether the work returned by itself.
   * @throws the signal's reason; the error of the work
   */
  async #campaign(work: LeaderWork, signal: AbortSignal): Promise<boolean> {
    const options = { ...this.#acquire, signal };
    let over = () => {};
    let hasReturned = false;
    let held: HeldLease | undefined;
    let failure: { readonly error: unknown } | undefined;
    try {
      await this.#leases.standBy(this.name, options, async (lease) => {
        held = lease;
        if ((await this.#handover.othersForMs(signal)) > 0) return;
        // The term has already ended: do not start work only to stop it.
        if (signal.aborted || !lease.checkAlive()) return;
        this.#over = new Promise((resolve) => {
          over = resolve;
        });
        [this.#lease, this.#state] = [lease, "leading"];
        lease.signal.addEventListener("abort", () => this.#stopping(lease), { once: true });
        await this.#drain.watch(lease, async () => {
          try {
            await work(lease);
            if (!lease.signal.aborted) hasReturned = true;
          } catch (error) {
            // Work that was asked to stop may end by throwing.
            if (lease.signal.aborted) return logThrownLate(this.#leases.env.logger, lease, error);
            failure = { error };
            throw error;
          } finally {
            this.#stopping(lease);
            lease.interrupt(new Resigned("the term is over"));
            await Promise.allSettled(this.#running);
          }
        });
      });
    } catch (error) {
      // A loss that is noticed only now does not replace it.
      if (failure) throw failure.error;
      if (!held?.lostError) throw error;
      return false;
    } finally {
      [this.#lease, this.#state] = [undefined, "waiting"];
      over();
    }
    await this.#handover.standAside(signal);
    return hasReturned;
  }

  #stopping(lease: HeldLease): void {
    if (this.#lease === lease) this.#state = "stopping";
  }
}
