export { Batcher, batched, failedMaybe } from "./batching.js";
export { KEEP_ENDED_MS, startCollector } from "./collector.js";
export * from "./errors.js";
export { HeldLease } from "./held-lease.js";
export type { HeldLeases } from "./held-leases.js";
export { Wakeup } from "./hints.js";
export { Keeper } from "./keeper.js";
export { Lease } from "./lease.js";
export { Leases, type Owned, type RevokeResult, type TryRunResult } from "./leases.js";
export { checkName } from "./names.js";
export {
  type AcquireOptions,
  type ClientOptions,
  checkInteger,
  checkKnown,
  checkNumber,
  checkPage,
  type LeaseOptions,
  withoutUndefined,
} from "./options.js";
export type * from "./port.js";
export type { Ticket } from "./queue.js";
export * as queue from "./queue.js";
export { type Decide, decideAcquire, decideRelease, decideRenew, inRounds } from "./rounds.js";
export type { LeaseRecord } from "./rules.js";
export * as rules from "./rules.js";
export { instant, trustFrom, trustLeftMs } from "./trust.js";
export {
  type AnyLease,
  type OnUnavailable,
  type RunOptions,
  UnprotectedLease,
  type Work,
} from "./unprotected.js";
export { stateOf, viewOf } from "./view.js";
export { type LiveWorker, liveWorkers } from "./workers.js";
