/** The grants and waiters of this client, which end at their own expiry: the session would keep them. */
import { type Clock, SerialExecutor } from "../../env/index.js";
import type { Grant, Key, QueuedWaiter, ReleaseOutcome } from "../../lease/index.js";
import { Own } from "../../store-kit/own.js";
import type { Connection } from "./connection.js";
import { identityOf, placeOf } from "./keys.js";

/**
 * A request whose answer was lost may still be applied: an agent waits for a leader, and the leader for its log, up to
 * about 40 s.
 */
const LATEST_EFFECT_MS = 60_000;
const LATE_CHECK_MS = 5_000;

export interface OwnGrant {
  readonly id: string;
  /** Includes the lease id, which proves the right to the grant. */
  readonly grant: Grant;
  /** Expiry by this process's monotonic clock. */
  untilMs: number;
  /** By the wall clock. */
  renewedAt?: string;
  /** Its answer was lost: it may be made until then, or never. Null if it is known to be made. */
  readonly lateUntilMs: number | null;
  /**
   * This client has asked to end it. The request may take effect late, whatever was answered: from then on the grant is over,
   * and neither a renewal nor a repeated request may bring it back. A new grant of the lease id is another entry, as its
   * acquire does not overlap the request.
   */
  isEnding: boolean;
}

/** Whether its time is over, or this client ends it. */
export function isOver({ isEnding, untilMs }: OwnGrant, atMs: number): boolean {
  return isEnding || untilMs <= atMs;
}

/** What ends a grant, or withdraws a waiter. */
type End = (what: "expire" | "withdraw", grant: Grant) => Promise<ReleaseOutcome | undefined>;

export class OwnGrants {
  readonly #prefix: string;
  readonly #clock: Clock;
  readonly #grants: Own<OwnGrant>;
  readonly #waiters: Own<OwnGrant>;

  constructor({ prefix, env: { clock } }: Connection, end: End) {
    this.#prefix = prefix;
    this.#clock = clock;
    const turns = new SerialExecutor();
    this.#grants = new Own(clock, turns, (one) => this.#end(this.#grants, one, "expire", end));
    this.#waiters = new Own(clock, turns, (one) => this.#end(this.#waiters, one, "withdraw", end));
  }

  get size(): number {
    return this.#grants.size + this.#waiters.size;
  }

  get(key: Key, identity: string): OwnGrant | undefined {
    return this.#grants.get(placeOf(this.#prefix, key).folder + identity);
  }

  /** Undefined: this client tracks no waiter of this grant. */
  waiterUntilMs(grant: Grant): number | undefined {
    return this.#waiters.get(this.#idOf(grant))?.untilMs;
  }

  /** Tracks a grant until this client ends it. */
  granted(grant: Grant, untilMs: number): void {
    const one = this.#ownOf(grant, untilMs);
    const known = this.#grants.get(one.id);
    // A renewal may have promised more before this request was answered.
    if (known && !known.isEnding) one.untilMs = Math.max(untilMs, known.untilMs);
    this.#grants.put(one);
    this.#waiters.forget(one.id);
  }

  /** Tracks a grant that may be made, now or late. */
  doubted(grant: Grant, untilMs: number): void {
    const one = this.#ownOf(grant, untilMs, this.#clock.monotonic() + LATEST_EFFECT_MS);
    const known = this.#grants.get(one.id);
    // A repetition of this request may have been answered.
    if (known?.lateUntilMs === null) return;
    // Its end may still take effect, on what this request has found made already.
    one.isEnding = known?.isEnding ?? false;
    this.#grants.put(one);
  }

  /** A grant was released. */
  released(grant: Grant): void {
    const id = this.#idOf(grant);
    // An end that is under way forgets it: before, it could end a new grant of the same lease id.
    if (!this.#grants.get(id)?.isEnding) this.#grants.forget(id);
  }

  /**
   * Tracks a waiter, for no shorter time than before.
   * @param sentMs when its time began, which is what it has from now on
   */
  waits(key: Key, { leaseId, expiresAtMs }: QueuedWaiter, sentMs: number): void {
    const untilMs = this.#clock.monotonic() + expiresAtMs - sentMs;
    const one = this.#ownOf({ ...key, leaseId }, untilMs);
    const known = this.#waiters.get(one.id);
    if (known) known.untilMs = Math.max(known.untilMs, untilMs);
    else this.#waiters.put(one);
  }

  /** Extends a grant that is about to be renewed, unless it is over: it does not end meanwhile. */
  extend(grant: Grant, nowMs: number, ttlMs: number, renewedAt: string): void {
    const own = this.#grants.get(this.#idOf(grant));
    if (!own || isOver(own, nowMs)) return;
    own.untilMs = Math.max(own.untilMs, nowMs + ttlMs);
    own.renewedAt = renewedAt;
  }

  /**
   * Runs work while this client does not end this grant.
   * @returns null, without running it, if the end is under way until `deadlineMs`
   */
  beside<T>(grant: Grant, deadlineMs: number, work: () => Promise<T>): Promise<T | null> {
    return this.#grants.inTurn(this.#idOf(grant), deadlineMs, work);
  }

  close(): void {
    this.#grants.close();
    this.#waiters.close();
  }

  /** Ends what is over, at most until the session has ended it. */
  async #end(all: Own<OwnGrant>, one: OwnGrant, what: Parameters<End>[0], end: End): Promise<void> {
    one.isEnding = true;
    const outcome = await end(what, one.grant);
    if (outcome?.status === "failed") throw outcome.error;
    const nowMs = this.#clock.monotonic();
    const isEnded = outcome?.status === "released" || nowMs >= (one.lateUntilMs ?? 0);
    if (isEnded) all.forget(one.id);
    else one.untilMs = nowMs + LATE_CHECK_MS;
  }

  /** Identifies a grant, or the waiter for it. */
  #idOf(grant: Grant): string {
    return placeOf(this.#prefix, grant).folder + identityOf(grant.leaseId);
  }

  #ownOf(
    { namespace, resource, leaseId }: Grant,
    untilMs: number,
    lateUntilMs: number | null = null,
  ): OwnGrant {
    const grant = { namespace, resource, leaseId };
    return { id: this.#idOf(grant), grant, untilMs, lateUntilMs, isEnding: false };
  }
}
