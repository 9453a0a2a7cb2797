/**
 * A lease as its holder has it: one grant, its renewals, its loss or release.
 *
 *              renewal confirmed (trust moves on)
 *               ┌──────┐
 *               ▼      │          trust passed, or a renewal was refused
 *   acquired ─▶ held ──┴────────────────────────────▶ lost      signal aborts, onLost fires once
 *                 │
 *                 └── release(): trust ends, then the store is called ──▶ released
 *
 * Failure cases.
 * *A renewal without an answer* neither extends nor ends the lease. It is retried, at shorter intervals,
 * until trust ends.
 * *A renewal that hangs*: the scheduler's timer ends the lease meanwhile.
 * *A late answer*: a lost lease never comes back. If the store renewed it, the grant is released.
 * *A paused process or a blocked event loop*: checkAlive() compares both clocks before any timer has
 * run, and records the loss itself. It first reads what a renewal thread has achieved meanwhile.
 */
import {
  type Env,
  type GrantId,
  grantIdOf,
  guarded,
  invariant,
  jittered,
  type LeaseId,
} from "../env/index.js";
import {
  ClosedError,
  type LeaseholdError,
  LeaseLostError,
  type LostReason,
  NoTokenError,
} from "./errors.js";
import type { GrantedLease, KeepOptions } from "./grant.js";
import type { GrantActions } from "./grant-actions.js";
import type { Lease, LostHandler } from "./lease.js";
import { checkFunction, checkKnown, RENEW_JITTER_RATIO } from "./options.js";
import type { Failed, RenewOutcome } from "./port.js";
import { RELEASE_TIMEOUT_MS, releaseAgain } from "./release-again.js";
import { type RenewalScheduler, type Scheduled, TOGETHER_MS } from "./renewal-scheduler.js";
import type { RenewalAnswer } from "./thread.js";
import { type Instant, instant, type Trust, trustFrom, trustLeftMs } from "./trust.js";

/** Keeps retries apart while trust approaches its end. */
const SHORTEST_RETRY_MS = 5;
/** A renewal may be sent early by this part of its interval, to join a batch. */
const EARLY_RATIO = 0.05;
const FINISHED = Promise.resolve();

/** A {@link Lease}, and what the client does with it. */
export class HeldLease implements Lease {
  readonly resource: string;
  readonly holder: string;
  declare readonly token: number;

  // Private, so that printing the lease does not print it.
  readonly #leaseId: LeaseId;
  readonly #token: number | null;
  readonly #env: Env;
  readonly #scheduler: RenewalScheduler;
  readonly #actions: GrantActions<HeldLease>;
  readonly #options: KeepOptions;
  #autoRenew: boolean;
  /** Whether work that relies on the lease is still running: it must then not be released. */
  isWorkedUnder = false;
  /** Whether its expiry is part of its use, and no loss to warn of. */
  isToExpire = false;
  /** Whether its client has closed over its work: then it only expires. */
  #isLeftBehind = false;
  #state: "held" | "lost" | "released" = "held";
  #lostError: LeaseLostError | undefined;
  #trust: Trust;
  #renewAtMs: number;
  #renewing: Promise<LeaseholdError | undefined> | undefined;
  #renewalFailure: LeaseholdError | undefined;
  #releasing: Promise<void> | undefined;
  // Created on first use: a process may hold a hundred thousand leases without any listener.
  #controller: AbortController | undefined;
  #handlers: Set<LostHandler> | undefined;
  #interrupted: unknown;
  #onEnd: (() => void) | undefined;
  #scheduled: Scheduled | undefined;

  constructor(
    granted: GrantedLease,
    options: KeepOptions,
    actions: GrantActions<HeldLease>,
    scheduler: RenewalScheduler,
    env: Env,
  ) {
    this.resource = granted.resource;
    this.holder = granted.holder;
    this.#leaseId = granted.leaseId;
    this.#token = granted.token;
    if (granted.token === null) {
      const refuse = () => {
        throw new NoTokenError(granted.resource);
      };
      Object.defineProperty(this, "token", { get: refuse });
    } else {
      this.token = granted.token;
    }
    [this.#env, this.#scheduler, this.#actions, this.#options] = [env, scheduler, actions, options];
    this.#autoRenew = options.autoRenew;
    this.#trust = trustFrom(granted.sent, granted.remainingMs, options);
    this.#renewAtMs = this.#nextRenewalMs(granted.sent.monotonicMs);
    this.#reschedule();
  }

  /** The fencing token, or null where there is none. */
  get tokenIfAny(): number | null {
    return this.#token;
  }

  /** False at a store without tokens: connect() says so in the type, which is UnfencedLease there. */
  get isFenced(): true {
    return (this.#token !== null) as true;
  }

  /** Of an UnfencedLease. */
  get isExclusive(): true {
    return true;
  }

  /** Set by the scheduler. An accessor, so that printing the lease does not print it. */
  get scheduled(): Scheduled | undefined {
    return this.#scheduled;
  }

  set scheduled(scheduled: Scheduled | undefined) {
    this.#scheduled = scheduled;
  }

  get leaseId(): LeaseId {
    return this.#leaseId;
  }

  get grantId(): GrantId {
    return grantIdOf(this.#leaseId);
  }

  remainingMs(): number {
    this.#readThread();
    return this.#state === "held" ? Math.max(0, trustLeftMs(this.#trust, this.#env.clock)) : 0;
  }

  checkAlive(): boolean {
    this.#readThread();
    if (this.#state !== "held") return false;
    if (trustLeftMs(this.#trust, this.#env.clock) > 0) return true;
    this.lose("expired");
    return false;
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      const reason = this.#lostError ?? this.#interrupted;
      if (reason !== undefined) this.#controller.abort(reason);
    }
    return this.#controller.signal;
  }

  onLost(handler: LostHandler): () => void {
    checkFunction("handler", handler);
    if (this.#lostError) {
      const { reason } = this.#lostError;
      queueMicrotask(() => this.#notify(handler, reason));
      return () => {};
    }
    this.#handlers ??= new Set();
    // Wrapped, so that the same function may be subscribed twice and unsubscribed once.
    const own: LostHandler = (reason) => handler(reason);
    this.#handlers.add(own);
    return () => this.#handlers?.delete(own);
  }

  async renew(options: { ttlMs?: number } = {}): Promise<void> {
    checkKnown(options, { ttlMs: true });
    const { ttlMs } = options;
    if (this.#state === "released") {
      throw new ClosedError("this lease (it was released)", "acquire again");
    }
    // Before it joins or precedes those of other callers, which its mistake is not to fail.
    if (ttlMs !== undefined) this.#actions.checkTtl?.(ttlMs);
    // A renewal in flight may ask for another duration, so this one follows it.
    while (ttlMs !== undefined && this.#renewing) await this.#renewing;
    if (this.checkAlive()) {
      const failure = await this.#renewOnce(ttlMs);
      if (failure && this.#state === "held") throw failure;
    }
    if (this.#lostError) throw this.#lostError;
  }

  release(): Promise<void> {
    this.#releasing ??= this.#release();
    return this.#releasing;
  }

  /** As `release`, for a grant that has ended in the store already. It costs no promise. */
  finish(): void {
    if (this.#state !== "held") return;
    this.#releasing = FINISHED;
    this.#endTrust();
    this.#end();
  }

  /** Releases; an unconfirmed release is logged, because it must not mask the work's own error. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch((error: unknown) => {
      const { resource, grantId } = this;
      this.#env.logger.warn({ err: error, resource, grantId }, "lease not released");
    });
  }

  /** Whether it is neither lost nor released. Does not read the clock. */
  get isHeld(): boolean {
    return this.#state === "held";
  }

  /** Why it was lost, if it was. */
  get lostError(): LeaseLostError | undefined {
    return this.#lostError;
  }

  /** Asks the work to stop while the lease is still held, because its client closes. */
  interrupt(reason: unknown): void {
    if (this.#state !== "held" || this.#interrupted !== undefined) return;
    this.#interrupted = reason;
    this.#controller?.abort(reason);
  }

  /**
   * Stops renewing, so that contenders wait until the lease expires or is released. For work that was
   * asked to stop and still runs: an early release would let a second holder work beside it.
   */
  letExpire(): void {
    this.#autoRenew = false;
    this.#actions.thread?.stop();
    this.#renewAtMs = Number.POSITIVE_INFINITY;
    this.#reschedule();
  }

  /** The last step of a closing client: releases the lease unless work still relies on it. */
  async letGo(): Promise<void> {
    if (!this.isWorkedUnder) return this[Symbol.asyncDispose]();
    this.#isLeftBehind = true;
    this.letExpire();
  }

  /** Calls back once when it is lost or its release has been settled. */
  onEnd(callback: () => void): void {
    this.#onEnd = callback;
  }

  /** Ends the holder's trust for good. */
  lose(reason: LostReason): void {
    if (this.#state !== "held") return;
    this.#state = "lost";
    const cause = reason === "expired" ? this.#renewalFailure : undefined;
    this.#lostError = new LeaseLostError(this.resource, reason, cause);
    this.#scheduler.remove(this);
    this.#controller?.abort(this.#lostError);
    const handlers = [...(this.#handlers ?? [])];
    this.#handlers = undefined;
    for (const handler of handlers) this.#notify(handler, reason);
    this.#end();
    if (this.isToExpire && reason === "expired") return;
    const { resource, grantId, tokenIfAny: token } = this;
    this.#env.logger.warn({ event: "lease_lost", resource, grantId, token, reason }, "lease lost");
  }

  /** Called by the scheduler when trust has ended or a renewal is due. */
  wake(): void {
    if (!this.checkAlive()) return;
    const earlyMs = Math.min(TOGETHER_MS, this.#options.renewIntervalMs * EARLY_RATIO);
    if (this.#env.clock.monotonic() >= this.#renewAtMs - earlyMs) void this.#renewOnce();
    this.#reschedule();
  }

  #notify(handler: LostHandler, reason: LostReason): void {
    guarded(
      () => handler(reason),
      (err) => this.#env.logger.error({ err, resource: this.resource }, "an onLost handler threw"),
    );
  }

  #reschedule(): void {
    if (this.#state !== "held") return;
    // While a renewal is in flight only the end of trust matters.
    const renewAtMs = this.#renewing ? Number.POSITIVE_INFINITY : this.#renewAtMs;
    this.#scheduler.schedule(this, Math.min(renewAtMs, this.#trust.untilMonotonicMs));
  }

  #nextRenewalMs(fromMs: number): number {
    if (!this.#autoRenew) return Number.POSITIVE_INFINITY;
    if (this.#actions.thread?.isRunning) {
      // Only if the other thread has not renewed it: this leaves both of them time for retries.
      const dueAtMs = fromMs + this.#options.renewIntervalMs * (1 + RENEW_JITTER_RATIO);
      return (dueAtMs + this.#trust.untilMonotonicMs) / 2;
    }
    return fromMs + jittered(this.#env.random, this.#options.renewIntervalMs, RENEW_JITTER_RATIO);
  }

  /** One renewal; concurrent callers share it. Resolves to the failure if it stayed unknown. */
  #renewOnce(ttlMs?: number): Promise<LeaseholdError | undefined> {
    if (this.#renewing) return this.#renewing;
    const { clock } = this.#env;
    const sent = instant(clock);
    // At most half of the remaining trust, so that a timeout leaves time for a retry.
    const timeoutMs = Math.max(1, trustLeftMs(this.#trust, clock) / 2);
    this.#renewing = this.#actions.renew(timeoutMs, ttlMs).then((outcome) => {
      try {
        return this.#onRenewal(sent, outcome);
      } finally {
        this.#renewing = undefined;
        this.#reschedule();
      }
    });
    return this.#renewing;
  }

  #onRenewal(sent: Instant, outcome: RenewOutcome): LeaseholdError | undefined {
    // Too late. If the store renewed a lost lease, release() ends that grant once the work has stopped.
    if (this.#state !== "held") return undefined;
    if (outcome.status === "failed") return this.#onRenewalFailed(outcome);
    this.#onAnswer(sent, outcome);
    if (outcome.status === "renewed") this.#actions.thread?.renewed(sent, outcome.remainingMs);
    return undefined;
  }

  #onAnswer(sent: Instant, outcome: RenewalAnswer): void {
    if (outcome.status === "lost") return this.lose(outcome.reason);
    if ((this.#token !== null && outcome.token !== this.#token) || !(outcome.remainingMs > 0)) {
      return this.lose("inconsistent");
    }
    this.#renewalFailure = undefined;
    const trust = trustFrom(sent, outcome.remainingMs, this.#options);
    if (trust.untilMonotonicMs > this.#trust.untilMonotonicMs) this.#trust = trust;
    this.#renewAtMs = this.#nextRenewalMs(sent.monotonicMs);
  }

  #readThread(): void {
    const renewal = this.#actions.thread?.read();
    if (!renewal || this.#state !== "held") return;
    this.#onAnswer(renewal.sent, renewal.answer);
    this.#reschedule();
  }

  #onRenewalFailed(failed: Failed): LeaseholdError {
    const { clock, logger, random } = this.#env;
    const { resource, grantId } = this;
    // The first one: the last have too little time left to learn more than that.
    this.#renewalFailure ??= failed.error;
    logger.warn({ err: failed.error, resource, grantId }, "renewal failed");
    if (this.#options.stopOnRenewError) {
      this.lose("expired");
    } else if (this.#autoRenew) {
      // Sooner than usual: at least three more attempts before trust ends.
      const leftMs = Math.max(0, trustLeftMs(this.#trust, clock));
      const quarterMs = Math.min(this.#options.renewIntervalMs, leftMs) / 4;
      const delayMs = Math.max(SHORTEST_RETRY_MS, quarterMs);
      this.#renewAtMs = clock.monotonic() + jittered(random, delayMs, 0.5);
    }
    return failed.error;
  }

  #release(): Promise<void> {
    if (this.#state === "lost") {
      // The work has stopped. If the store may still list the grant, free it for contenders.
      const reason = this.#lostError?.reason;
      if (reason === "expired" || reason === "inconsistent")
        this.#actions.keepOpenFor?.(this.#actions.release(RELEASE_TIMEOUT_MS));
      return FINISHED;
    }
    invariant(this.#state === "held", "a lease is released once");
    this.#endTrust();
    if (!this.#isLeftBehind) {
      return this.#actions.release(RELEASE_TIMEOUT_MS).then((outcome) => {
        if (outcome.status !== "failed") return this.#end();
        return releaseAgain(this.#actions, outcome, this.#env).finally(() => this.#end());
      });
    }
    // The client has closed its store: when the work ends at last, the grant expires by itself.
    this.#end();
    return FINISHED;
  }

  #endTrust(): void {
    this.#state = "released";
    this.#scheduler.remove(this);
    this.#handlers = undefined;
  }

  #end(): void {
    this.#actions.ended?.(this);
    this.#onEnd?.();
  }
}
