/**
 * One lease, from the rules that every store decides by to the client that a program calls.
 *
 * Read it in this order:
 *   rules.ts       when a store grants, renews, releases and revokes; pure functions
 *   queue.ts       in which order it serves waiters
 *   port.ts        what a store offers
 *   trust.ts       how long a holder may trust a grant, by its own clocks
 *   held-lease.ts  one grant in the hands of its holder
 *   renewal-scheduler.ts      the renewal scheduler: one timer for all renewals
 *   thread.ts      a second thread that renews, as the client sees it
 *   batching.ts    many requests in one call to the store
 *   retrying.ts    again, where a store fails for a while only; retries.ts: which calls, and how
 *   acquire.ts     from the call to the grant: attempts, waiting, retries
 *   waiter.ts      queue positions, notifications, the local queue
 *   context.ts     what the leases of one client share
 *   reusable-lease.ts  a lease that is acquired and released any number of times
 *   client.ts      the client
 */

export { type Abort, Aborting } from "./aborting.js";
export { Batcher, batched, type Submission } from "./batching.js";
export { LeaseClient, type Owned, type RevokeResult, type TryRunResult } from "./client.js";
export { KEEP_ENDED_MS, startCollector } from "./collector.js";
export { cursorAfter, resourceOfCursor } from "./cursor.js";
export * from "./errors.js";
export type { GrantedLease, KeepOptions } from "./grant.js";
export type { GrantActions } from "./grant-actions.js";
export { HeldLease } from "./held-lease.js";
export type { AnyLease, HeldResource, Lease, LostHandler, UnfencedLease } from "./lease.js";
export type { LeaseGroup } from "./lease-group.js";
export { checkName, checkNames, checkNewName, checkSchema, isPlainName } from "./names.js";
export { OnceDoneError, OnceFailedError } from "./once-errors.js";
export {
  type AcquireOptions,
  type ClientOptions,
  checkArray,
  checkFunction,
  checkInteger,
  checkKnown,
  checkMethods,
  checkNotPromise,
  checkNumber,
  checkObject,
  checkOptional,
  checkOutside,
  checkPage,
  checkSignal,
  checkTime,
  checkUrl,
  defaultTtlMs,
  HOLDING,
  isTime,
  kindOf,
  LEASE_STATES,
  type LeaseOptions,
  RENEW_JITTER_RATIO,
  SHORTEST_TTL_MS,
  TIMES,
  timeExpected,
  withoutUndefined,
} from "./options.js";
export { PAUSED_HOLDER } from "./paused-holder.js";
export type * from "./port.js";
export {
  acquireAt,
  acquireInTurn,
  LONGEST_WAITER_MS,
  liveWaiters,
  MOST_AWAITED,
  type QueuedWaiter,
  RESERVED_MS,
  reservedForMs,
  waiterOf,
} from "./queue.js";
export { RenewalScheduler, type Scheduled, type ScheduledLease } from "./renewal-scheduler.js";
export * from "./retries.js";
export {
  asReadError,
  notingFailures,
  Retrying,
  UNLESS_APPLIED,
} from "./retrying.js";
export type { ReusableLease } from "./reusable-lease.js";
export { type Decision, type LeaseRecord, rules } from "./rules.js";
export type { OnUnavailable, RunOptions, Work } from "./run.js";
export * from "./run-errors.js";
export { sqlErrorOf } from "./sql-errors.js";
export { checkInTransaction, type SqlTransaction } from "./sql-transaction.js";
export {
  asStoreError,
  detailsOf,
  failedOutcome,
  isRefusedRequest,
  refusedRequest,
} from "./store-errors.js";
export { ranTooLong, TaskTimeoutError, WorkerStuckError } from "./task-errors.js";
export { forgetTaskToken, noteTaskToken, warnOfTaskToken } from "./task-tokens.js";
export type * from "./thread.js";
export { logThrownLate, lossOr } from "./thrown-late.js";
export { TimedOutError } from "./timed-out.js";
export { type Instant, instant, later, type Trust, trustFrom, trustLeftMs } from "./trust.js";
export { stateOf, viewOf } from "./view.js";
export { type Held, Wakeup } from "./waiter.js";
export { type LiveWorker, liveWorkers } from "./workers.js";
