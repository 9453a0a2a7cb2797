/**
 * What a store of your own is made of: the port that it implements and the rules that it applies.
 * `connect(yourStore)` takes it; the suite of `leasehold/testing` holds it against both.
 */

export {
  type AcquireOutcome,
  type AcquireRequest,
  type CallOptions,
  type Capabilities,
  type Failed,
  type Grant,
  type Key,
  type LeaseRecord,
  type LeaseState,
  type LeaseStore,
  type LeaseView,
  type ListQuery,
  type Page,
  queue,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  rules,
  type Term,
  type WatchEvent,
} from "./core/index.js";
export { grantIdOf } from "./env/index.js";
