/**
 * Acquiring a lease: attempt after attempt, until one is granted, the time is over, or the caller aborts.
 *
 *   acquire ──▶ local queue ──▶ attempt ──▶ acquired ──▶ HeldLease
 *               callers of one    ▲  │
 *               process, first    │  ├──▶ held: the store may keep a position for us in its wait queue
 *               in, first out     │  └──▶ store unavailable: a patient caller waits for that too
 *                                 │          │
 *                                 └── wait ◀─┘ for a notification, the expiry, its reservation, or the next poll
 *
 *   waitMs over ──▶ LeaseUnavailableError, or why the store failed      aborted ──▶ the signal's reason
 *
 * One attempt settles every doubt before it answers:
 *
 *   send ──▶ acquired ──▶ trust left? ──▶ HeldLease
 *    │          └── no (the answer took longer than the lease): release, then a new lease id
 *    ├──▶ held ────▶ by whom, for how long, how many waiters ahead
 *    ├──▶ ended ───▶ our lease id was granted and has ended already: a new lease id
 *    └──▶ failed ──▶ the same lease id again, after a backoff, within the attempt's budget
 *
 * Failure cases.
 * *The reply is lost after the store has committed the grant*: the attempt sends the same lease id again,
 * and the store answers with the same grant.
 * *The caller aborts, or the budget ends, while a request is in flight*: a release of its lease id follows
 * once that request has returned, so that no unused grant blocks the resource until its expiry.
 * *The abort comes between the answer and its reader*: the grant is released as well.
 * *The waiter at the head of the queue dies*: the store reserves a free resource for it for 500 ms, then
 * also for the next one (queue.ts). The few waiters behind it attempt by then, whether notified or not;
 * its position expires because it no longer renews it.
 * *A notification is lost*: each waiter polls as well.
 * *A waiter gives up*: a release under its lease id frees its position.
 */
import { Backoff, type LeaseId, newLeaseId, sleep } from "../env/index.js";
import type { Abort } from "./aborting.js";
import { giveUp, hold, type LeaseContext } from "./context.js";
import { LeaseholdError, LeaseUnavailableError, StoreUnavailableError } from "./errors.js";
import { ATTEMPT_BUDGET_MS, FirstAttempt } from "./first-attempt.js";
import { HeldLease } from "./held-lease.js";
import type { ResolvedOptions } from "./options.js";
import type { AcquireOutcome } from "./port.js";
import { asUnknown, retryAfterMsOf } from "./retrying.js";
import { instant, trustFrom, trustLeftMs } from "./trust.js";
import { logUnanswered, WaitLog } from "./wait-log.js";
import { type Contender, type Held, Waiter } from "./waiter.js";

const RETRY = { firstMs: 25, longestMs: 200 };
/** Who is waited for in the local queue. */
const LOCAL: Held = { holder: "another caller of this client", remainingMs: null };
/** Tells the end of `waitMs` from the caller's own abort. */
const OVERDUE = new Error("waitMs is over");

/** How an acquire waits. */
export interface WaitManner {
  /** Whether it waits for an unavailable store too. Default true. */
  readonly isPatient?: boolean;
  /** Whether waiting is what the caller is there for, and so not logged. Default false. */
  readonly isStandby?: boolean;
}

/**
 * Acquires the lease, within `options.waitMs` once it is refused. A caller that is alone asks without a position in the
 * store's wait queue, a timer or a subscription: it needs them when it is refused.
 * @throws LeaseUnavailableError when the time is over; the reason when aborted
 */
export function acquire(
  context: LeaseContext,
  resource: string,
  options: ResolvedOptions,
  manner: WaitManner,
): Promise<HeldLease> {
  const { calls, held, localQueue } = context;
  const { signal } = options;
  signal?.throwIfAborted();
  if (held.has(resource) || !localQueue.enterIdle(resource)) {
    const sinceMs = context.env.clock.monotonic();
    return calls.run(signal, (abort) => wait(context, resource, options, abort, manner, sinceMs));
  }
  return new Promise((resolve, reject) =>
    new FirstOfAcquire(context, resource, options, resolve, reject, manner).send(),
  );
}

/** Of a caller that is the head of the local queue. */
class FirstOfAcquire extends FirstAttempt {
  constructor(
    context: LeaseContext,
    resource: string,
    options: ResolvedOptions,
    resolve: (answer: HeldLease | Promise<HeldLease>) => void,
    reject: (reason: unknown) => void,
    readonly manner: WaitManner,
  ) {
    super(context, resource, options, resolve, reject);
  }

  protected ended(): void {
    this.context.localQueue.leave(this.request.resource);
  }

  protected next(): Promise<HeldLease> {
    const { context, options, manner } = this;
    return context.calls.run(options.signal, (abort) => acquireAfter(this, abort, manner));
  }
}

/** Goes on after a first attempt that was not simply granted, as the head of the local queue. */
async function acquireAfter(
  first: Pick<FirstAttempt, "context" | "options" | "request" | "sent" | "outcome">,
  abort: Abort,
  manner: WaitManner,
): Promise<HeldLease> {
  const { context, options, sent } = first;
  const { resource, leaseId } = first.request;
  const contender: Contender = { leaseId, queueMs: 0 };
  let refused: Held | LeaseholdError | undefined;
  try {
    const answer = await attempt(context, resource, options, abort, contender, first);
    if (answer instanceof HeldLease) return answer;
    refused = answer;
  } catch (error) {
    refused = toWaitOut(context, resource, error, abort, manner);
  } finally {
    if (!refused) context.localQueue.leave(resource);
  }
  const known = { leaseId: contender.leaseId, answer: refused };
  return wait(context, resource, options, abort, manner, sent.monotonicMs, known);
}

/**
 * Acquires the lease if it is free, without waiting.
 * @returns who holds it, when it is certain that another client does
 * @throws STORE_UNAVAILABLE when that is not certain; the reason when aborted
 */
export function tryAcquire(
  context: LeaseContext,
  resource: string,
  options: ResolvedOptions,
): Promise<HeldLease | Held> {
  options.signal?.throwIfAborted();
  return new Promise((resolve, reject) =>
    new FirstOfTry(context, resource, options, resolve, reject).send(),
  );
}

class FirstOfTry extends FirstAttempt<Held> {
  protected ended(): void {}

  protected next(): Promise<HeldLease | Held> {
    const { context, options, request } = this;
    const { resource, leaseId } = request;
    return context.calls.run(options.signal, (abort) =>
      attempt(context, resource, options, abort, { leaseId, queueMs: 0 }, this),
    );
  }
}

/**
 * The error of an attempt, if the caller waits until the store answers again.
 * @throws it, if not
 */
function toWaitOut(
  { env, localQueue }: LeaseContext,
  resource: string,
  error: unknown,
  abort: Abort,
  { isPatient = true }: WaitManner,
): LeaseholdError {
  if (abort.aborted || !(error instanceof LeaseholdError) || !error.retryable) throw error;
  // Impatient callers in the local queue need not find out one after the other.
  localQueue.fail(resource, error);
  if (!isPatient) throw error;
  logUnanswered({ env }, resource, error);
  return error;
}

/**
 * Waits for the lease, at most `options.waitMs`. Even a caller in a hurry gets an answer: the first
 * attempt is not cut short.
 * @param sinceMs when the caller began to wait, by the monotonic clock
 * @param first the lease id of the first attempt and its answer; undefined: there was none, and the caller is not yet
 *   the head of the local queue
 */
async function wait(
  context: LeaseContext,
  resource: string,
  options: ResolvedOptions,
  abort: Abort,
  manner: WaitManner,
  sinceMs: number,
  first?: { readonly leaseId: LeaseId; readonly answer: Held | LeaseholdError },
): Promise<HeldLease> {
  const { capabilities, env, localQueue, namespace } = context;
  const { isPatient = true, isStandby = false } = manner;
  const deadlineMs = sinceMs + options.waitMs;
  const leftMs = () => deadlineMs - env.clock.monotonic();
  // The store's latest answer, for the error that says why the wait was in vain.
  let last: Held | LeaseholdError = first?.answer ?? LOCAL;
  let mayCutShort = true;
  const deadline = Number.isFinite(options.waitMs)
    ? env.clock.timer(leftMs(), () => mayCutShort && abort.abort(OVERDUE))
    : undefined;
  const waiter = new Waiter(env, capabilities.watch, first?.leaseId);
  let unsubscribe: (() => void) | undefined;
  let isHead = first !== undefined;
  // Whether the store may keep a position for us.
  let isQueued = false;
  const log = new WaitLog(context, resource, last, isStandby);
  const answered = (answer: Held | LeaseholdError) => {
    last = answer;
    log.answered(answer);
  };
  env.telemetry?.change("leasehold.lease.waiters", {}, 1);
  try {
    if (!isHead) {
      if (localQueue.isBusy(resource)) log.waiting();
      await localQueue.enter(resource, abort, isPatient);
      isHead = true;
    }
    for (let attempts = first ? 1 : 0; ; attempts += 1) {
      if (attempts > 0) {
        if (leftMs() <= 0) throw OVERDUE;
        log.waiting();
        unsubscribe ??= context.notifications.subscribe(resource, waiter.notify);
        // An attempt at once, now with a position in the wait queue, sees what happened before the subscription;
        // the short pauses after it see what was in flight meanwhile.
        if (attempts > 1 || context.held.has(resource)) {
          const held = last instanceof Error ? null : last;
          await waiter.untilNextAttempt(held, attempts - 1, leftMs(), abort.signal);
        }
      }
      const own = context.held.get(resource);
      if (own) {
        // This client holds it: there is nothing to ask the store before that ends.
        answered({ holder: own.holder, remainingMs: own.remainingMs() || null });
        continue;
      }
      mayCutShort = attempts > 0;
      if (attempts > 0) waiter.stay(leftMs());
      try {
        const answer = await attempt(context, resource, options, abort, waiter);
        if (answer instanceof HeldLease) {
          isQueued = false;
          log.answered(null);
          return answer;
        }
        isQueued ||= waiter.queueMs > 0;
        answered(answer);
      } catch (error) {
        answered(toWaitOut(context, resource, error, abort, manner));
      }
      mayCutShort = true;
    }
  } catch (error) {
    if (error !== OVERDUE) throw error;
    if (last instanceof Error) throw last;
    throw new LeaseUnavailableError(resource, options.waitMs, last.holder);
  } finally {
    env.telemetry?.change("leasehold.lease.waiters", {}, -1);
    deadline?.cancel();
    log.end();
    unsubscribe?.();
    const { leaseId } = waiter;
    if (isQueued && capabilities.queue) giveUp(context, { namespace, resource, leaseId });
    if (isHead) localQueue.leave(resource);
  }
}

/**
 * Takes the lease if it is free.
 * @param contender under which lease id, which is replaced when it can no longer be used
 * @param first a call under that lease id that was sent and answered already
 * @returns who holds it, when it is certain that another client does
 * @throws STORE_UNAVAILABLE when that is not certain; the reason when aborted
 */
export async function attempt(
  context: LeaseContext,
  resource: string,
  options: ResolvedOptions,
  abort: Abort,
  contender: Contender = { leaseId: newLeaseId(context.env.random), queueMs: 0 },
  first?: Pick<FirstAttempt, "sent" | "outcome">,
): Promise<HeldLease | Held> {
  const { env, namespace, holder } = context;
  const { clock, random } = env;
  let backoff: Backoff | undefined;
  let giveUpAtMs: number | undefined;
  const { ttlMs, metadata } = options;
  const { queueMs } = contender;
  const more = {
    ...(metadata !== undefined && { metadata }),
    ...(queueMs > 0 && { queueMs }),
  };
  // Whether an earlier call had no answer, and whether one may have made a grant under the lease id
  // that nothing uses yet: so it is from sending until its answer has been read.
  let unknown = false;
  let maybe = false;
  let answer: Promise<AcquireOutcome> | undefined;
  let begun = first;
  try {
    for (;;) {
      const { leaseId } = contender;
      const sent = begun?.sent ?? instant(clock);
      giveUpAtMs ??= sent.monotonicMs + Math.min(ttlMs / 2, ATTEMPT_BUDGET_MS);
      const timeoutMs = Math.max(1, giveUpAtMs - sent.monotonicMs);
      maybe = true;
      if (begun?.outcome) {
        answer = Promise.resolve(begun.outcome);
        begun = undefined;
      } else {
        const request = { namespace, resource, leaseId, holder, ttlMs, ...more };
        answer = context.batched.acquire(request, timeoutMs);
      }
      const outcome = await abort.race(answer);
      // The answer may have come first, and the abort before it was read.
      abort.throwIfAborted();
      maybe = false;
      let failure: LeaseholdError;
      switch (outcome.status) {
        case "held":
          return heldBy(outcome);
        case "acquired": {
          const trust = trustFrom(sent, outcome.remainingMs, options);
          unknown = false;
          if (trustLeftMs(trust, clock) > 0) {
            const { remainingMs } = outcome;
            const token = context.capabilities.tokens === false ? null : outcome.token;
            return hold(context, options, { resource, holder, leaseId, sent, token, remainingMs });
          }
          giveUp(context, { namespace, resource, leaseId });
          contender.leaseId = newLeaseId(random);
          failure = unavailable(
            `the store's answer for "${resource}" took longer than the lease (ttlMs = ${options.ttlMs}): raise ttlMs`,
          );
          break;
        }
        case "ended":
          contender.leaseId = newLeaseId(random);
          unknown = false;
          failure = unavailable(`a grant of "${resource}" ended before the store's answer arrived`);
          break;
        case "failed":
          unknown ||= outcome.applied === "maybe";
          maybe = unknown;
          failure = unknown && outcome.applied === "no" ? asUnknown(outcome.error) : outcome.error;
          if (!outcome.retryable) throw failure;
      }
      // Never less than the delay that the store named: a server that refuses by a limit says so for a while.
      backoff ??= new Backoff(random, RETRY);
      const pauseMs = retryAfterMsOf(failure) + backoff.nextMs();
      if (clock.monotonic() + pauseMs >= giveUpAtMs) throw failure;
      await sleep(clock, pauseMs, { signal: abort.signal });
      // A pause may last longer: a call without time would only hide why the one before it failed.
      if (clock.monotonic() >= giveUpAtMs) throw failure;
    }
  } finally {
    if (maybe) {
      giveUp(context, { namespace, resource, leaseId: contender.leaseId }, answer);
      // The release may arrive at any time: no request may use this lease id again.
      contender.leaseId = newLeaseId(random);
    }
  }
}

function heldBy({ holder, remainingMs, ahead }: Held): Held {
  return { holder, remainingMs, ...(ahead !== undefined && { ahead }) };
}

function unavailable(message: string): StoreUnavailableError {
  return new StoreUnavailableError(message, { outcome: "none" });
}
