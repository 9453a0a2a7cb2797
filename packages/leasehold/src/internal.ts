/**
 * What the server, its command line, the console and the verification share of the inside. No promise of
 * compatibility: it changes with any version, and they depend on exactly this one.
 */
import {
  type Capabilities,
  type ClientOptions,
  type HeldLease,
  LeaseClient,
  type LeaseStore,
  type Owned,
} from "./core/index.js";

export {
  type Act,
  type Actors,
  type ApiKey,
  type AuditEntry,
  type AuditLog,
  type AuditPhase,
  type By,
  CHAIN_BEGIN,
  type Checkpoint,
  type Control,
  clearPause,
  createKey,
  equalDigests,
  type GrantHistory,
  inTwoSteps,
  KEEP_ENDED_KEYS_MS,
  type KeyRecord,
  type KeyStore,
  type LimitStore,
  type MadeKey,
  NO_LIMITS,
  type Operator,
  type Pause,
  type PauseKey,
  parseKeyText,
  pausesOf,
  ROLES,
  type Role,
  revokeKey,
  rotateKey,
  setPause,
  startRecorder,
  steerGenerator,
  type TenantLimits,
  TooManyKeysError,
  type Verification,
  verifyAudit,
} from "./control/index.js";
export {
  type AcquireOutcome,
  type AcquireRequest,
  asStoreError,
  Batcher,
  batched,
  type CallOptions,
  type Capabilities,
  checkInteger,
  checkKnown,
  checkName,
  checkNumber,
  type Failed,
  failedMaybe,
  type Grant,
  instant,
  KEEP_ENDED_MS,
  type Key,
  type LeaseRecord,
  type ListQuery,
  type LiveWorker,
  liveWorkers,
  queue,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  rules,
  startCollector,
  trustFrom,
  trustLeftMs,
  Wakeup,
  withoutUndefined,
} from "./core/index.js";
export {
  type ShardStanding,
  type Standing,
  standingsOf,
  type TermRecord,
  termsOf,
} from "./election/standing.js";
export {
  digestOf,
  formatDuration,
  grantIdOf,
  holderLeaseId,
  invariant,
  jittered,
  type MetricName,
  newHolder,
  newLeaseId,
  nextTurn,
  type Observation,
  parseDuration,
  Recent,
  type Repeating,
  repeat,
  SerialExecutor,
  silentLogger,
  sleep,
  systemClock,
  systemEnv,
  systemRandom,
  taskIds,
  taskLeaseId,
  telling,
  withoutLeaseIds,
  withTimeout,
} from "./env/index.js";
export { type Prefixed, TopPrefixes } from "./instrumentation/top-prefixes.js";
export { MemoryLeaseState, MemoryLeaseStore } from "./stores/memory/store.js";
export { MemoryTaskState, MemoryTaskStore } from "./stores/memory/tasks.js";
export { type Diagnosis } from "./stores/source.js";
export { comesBefore, explain } from "./tasks/explain.js";
export {
  type AdminOutcome,
  type ClaimedTask,
  type ClaimOptions,
  type ClaimOutcome,
  type ClaimRequest,
  DEFAULTS,
  type EnqueueOutcome,
  GENERATOR_RESOURCE,
  Generator,
  type GeneratorState,
  type GeneratorWanted,
  type Json,
  leasesOfTask,
  type NewTask,
  observed,
  Ready,
  type ReadyOptions,
  type Refused,
  startReaper,
  TASK_STATES,
  type TaskDetails,
  type TaskEvent,
  type TaskKey,
  type TaskLeaseQuery,
  type TaskListener,
  type TaskQuery,
  type TaskState,
  type TaskStore,
  Tasks,
  type TaskView,
} from "./tasks/index.js";

// What the public types of these classes hide.

export function capabilitiesOf(leases: LeaseClient): Capabilities {
  return leases.capabilities;
}

/** Null where the store gives none. */
export function tokenOf(lease: HeldLease): number | null {
  return lease.tokenIfAny;
}

/** The end of this process does not release it: it runs out. */
export function keepUntilExpiry(lease: HeldLease): void {
  lease.isWorkedUnder = true;
}

/** A client over a store that is open already. @param owned what closes with it */
export function clientOver(store: LeaseStore, options: ClientOptions, owned: Owned): LeaseClient {
  return new LeaseClient(store, options, owned);
}
