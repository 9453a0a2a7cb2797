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
import { Backoff, newLeaseId, sleep, type Timer } from "../env/index.js";
import type { Abort } from "./aborting.js";
import { giveUp, hold, type LeaseContext } from "./context.js";
import { type LeaseholdError, LeaseUnavailableError, StoreUnavailableError } from "./errors.js";
import { HeldLease } from "./held-lease.js";
import type { ResolvedOptions } from "./options.js";
import { asUnknown, retryAfterMsOf } from "./retrying.js";
import { instant, trustFrom, trustLeftMs } from "./trust.js";
import { type Contender, type Held, Waiter } from "./waiter.js";

/** One attempt takes at most this long, and at most half of the TTL. */
const ATTEMPT_BUDGET_MS = 5_000;
const RETRY = { firstMs: 25, longestMs: 200 };
/** A wait of this length is logged, once, with the holder that is waited for. */
const LONG_WAIT_MS = 10_000;
const MAYBE_NESTED = "waiting for a lease of this very client: a run within a run waits for ever";
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
 * Waits for the lease, at most `options.waitMs`. Even a caller in a hurry gets an answer: the first
 * attempt is not cut short.
 * @param abort ends the wait; aborted here when the time is over
 * @throws LeaseUnavailableError when the time is over; the reason when aborted
 */
export async function acquire(
  context: LeaseContext,
  resource: string,
  options: ResolvedOptions,
  abort: Abort,
  { isPatient = true, isStandby = false }: WaitManner,
): Promise<HeldLease> {
  const { capabilities, env, localQueue, namespace } = context;
  const deadlineMs = env.clock.monotonic() + options.waitMs;
  const leftMs = () => deadlineMs - env.clock.monotonic();
  // The store's latest answer, for the error that says why the wait was in vain.
  let last: Held | LeaseholdError = { holder: "another caller of this client", remainingMs: null };
  let mayCutShort = true;
  const deadline = Number.isFinite(options.waitMs)
    ? env.clock.timer(options.waitMs, () => mayCutShort && abort.abort(OVERDUE))
    : undefined;
  const waiter = new Waiter(env, capabilities.watch);
  let unsubscribe: (() => void) | undefined;
  let isHead = false;
  // Whether the store may keep a position for us.
  let isQueued = false;
  let longWait: Timer | undefined;
  const reportLongWait = () => {
    const { holder, remainingMs } =
      last instanceof Error ? { holder: null, remainingMs: null } : last;
    const isOurs = context.held.has(resource);
    // Without a scope, a nested run looks like a concurrent one.
    const isMaybeNested = isOurs && !env.newScope;
    const message = isMaybeNested ? MAYBE_NESTED : "waiting for a lease";
    env.logger.warn({ resource, holder, remainingMs, waitedMs: LONG_WAIT_MS }, message);
  };
  const noteWait = () => {
    if (isStandby) return;
    longWait ??= env.clock.timer(LONG_WAIT_MS, reportLongWait, { background: true });
  };
  env.telemetry?.change("leasehold.lease.waiters", {}, 1);
  try {
    if (localQueue.isBusy(resource)) noteWait();
    await localQueue.enter(resource, abort, isPatient);
    isHead = true;
    for (let attempts = 0; ; attempts += 1) {
      const own = context.held.get(resource);
      if (own) {
        // This client holds it: there is nothing to ask the store before that ends.
        last = { holder: own.holder, remainingMs: own.remainingMs() || null };
      } else {
        mayCutShort = attempts > 0;
        waiter.stay(leftMs());
        const attempting = attempt(context, resource, options, abort, waiter);
        const answer = await attempting.catch((error: LeaseholdError) => {
          if (abort.aborted || !error.retryable) throw error;
          // Impatient callers in the local queue need not find out one after the other.
          localQueue.fail(resource, error);
          if (!isPatient) throw error;
          env.logger.warn({ err: error, resource }, "waiting for a store that does not answer");
          return error;
        });
        if (answer instanceof HeldLease) {
          isQueued = false;
          return answer;
        }
        isQueued ||= !(answer instanceof Error);
        last = answer;
        mayCutShort = true;
      }
      if (leftMs() <= 0) throw OVERDUE;
      noteWait();
      unsubscribe ??= context.notifications.subscribe(resource, waiter.notify);
      // The first `held` has put us into the queue. A second attempt at once sees what happened before
      // that; the short pauses after it see what was in flight meanwhile.
      if (own || attempts > 0) {
        const held = last instanceof Error ? null : last;
        await waiter.untilNextAttempt(held, attempts, leftMs(), abort.signal);
      }
    }
  } catch (error) {
    if (error !== OVERDUE) throw error;
    if (last instanceof Error) throw last;
    throw new LeaseUnavailableError(resource, options.waitMs, last.holder);
  } finally {
    env.telemetry?.change("leasehold.lease.waiters", {}, -1);
    deadline?.cancel();
    longWait?.cancel();
    unsubscribe?.();
    const { leaseId } = waiter;
    if (isQueued && capabilities.queue) giveUp(context, { namespace, resource, leaseId });
    if (isHead) localQueue.leave(resource);
  }
}

/**
 * Takes the lease if it is free.
 * @param contender under which lease id, which is replaced when it can no longer be used
 * @returns who holds it, when it is certain that another client does
 * @throws STORE_UNAVAILABLE when that is not certain; the reason when aborted
 */
export async function attempt(
  context: LeaseContext,
  resource: string,
  options: ResolvedOptions,
  abort: Abort,
  contender: Contender = { leaseId: newLeaseId(context.env.random), queueMs: 0 },
): Promise<HeldLease | Held> {
  const { env, namespace, holder } = context;
  const { clock, random } = env;
  const backoff = new Backoff(random, RETRY);
  const giveUpAtMs = clock.monotonic() + Math.min(options.ttlMs / 2, ATTEMPT_BUDGET_MS);
  const { ttlMs, metadata } = options;
  const { queueMs } = contender;
  const request = {
    namespace,
    resource,
    holder,
    ttlMs,
    leaseId: contender.leaseId,
    ...(metadata !== undefined && { metadata }),
    ...(queueMs > 0 && { queueMs }),
  };
  // Whether an earlier call had no answer, and whether one may have made a grant under the lease id
  // that nothing uses yet: so it is from sending until its answer has been read.
  let unknown = false;
  let maybe = false;
  let answer: ReturnType<typeof context.batched.acquire> | undefined;
  try {
    for (;;) {
      const { leaseId } = contender;
      const sent = instant(clock);
      const timeoutMs = Math.max(1, giveUpAtMs - sent.monotonicMs);
      maybe = true;
      answer = context.batched.acquire({ ...request, leaseId }, timeoutMs);
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
      const pauseMs = retryAfterMsOf(failure) + backoff.nextMs();
      if (clock.monotonic() + pauseMs >= giveUpAtMs) throw failure;
      await sleep(clock, pauseMs, { signal: abort.signal });
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
