/**
 * What the server, its command line, the console and the verification share of the inside. No promise of
 * compatibility: it changes with any version, and they depend on exactly this one.
 */
import {
  type AnyLease,
  type ClientOptions,
  HeldLease,
  LeaseClient,
  type LeaseStore,
  type Owned,
} from "./core/index.js";
import { invariant, type LeaseId } from "./env/index.js";

export {
  ACTION_ALIASES,
  type Act,
  type Actors,
  type ApiKey,
  AUDIT_ACTIONS,
  type AuditAction,
  type AuditEntry,
  type AuditLog,
  type AuditPhase,
  type By,
  CHAIN_BEGIN,
  type Checkpoint,
  type Control,
  claimedActorOf,
  clearPause,
  createKey,
  entryOf,
  equalDigests,
  type GrantHistory,
  inTwoSteps,
  KEEP_ENDED_KEYS_MS,
  type KeyRecord,
  KeyRotatedError,
  type KeyStore,
  type LimitStore,
  type MadeKey,
  NO_LIMITS,
  NOTE_USED_EVERY_MS,
  type Operator,
  type OperatorActors,
  type Pause,
  type PauseKey,
  parseKeyText,
  pausesOf,
  type RemoteOperator,
  type RequestedRevocation,
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
export { retryingControl } from "./control/retrying.js";
export {
  Aborting,
  type AcquireOutcome,
  type AcquireRequest,
  asReadError,
  asStoreError,
  Batcher,
  batched,
  blockedPort,
  type CallOptions,
  type Capabilities,
  checkFetchPorts,
  checkInteger,
  checkKnown,
  checkName,
  checkNewName,
  checkNumber,
  cursorAfter,
  type Failed,
  failedMaybe,
  type Grant,
  type HeldLease,
  instant,
  isPlainName,
  KEEP_ENDED_MS,
  type Key,
  LeaseClient,
  type LeaseRecord,
  type ListQuery,
  type LiveWorker,
  LONGEST_WAITER_MS,
  liveWorkers,
  PAUSED_HOLDER,
  RESERVED_MS,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  resourceOfCursor,
  rules,
  SHORTEST_TTL_MS,
  startCollector,
  trustFrom,
  trustLeftMs,
  Wakeup,
  withoutUndefined,
} from "./core/index.js";
export { electorOver, shardsOver, singletonOver } from "./election/index.js";
export {
  type Leadership,
  leadershipOf,
  type ShardLeadership,
  type TermRecord,
  termsOf,
} from "./election/leadership.js";
export {
  BOUNDARIES,
  claimDigestOf,
  digestOf,
  formatDuration,
  grantIdOf,
  holderLeaseId,
  invariant,
  isolated,
  jittered,
  METRICS,
  type MetricName,
  measureStalls,
  newHolder,
  newLeaseId,
  nextTurn,
  notesOn,
  type Observation,
  parseDuration,
  Recent,
  type Repeating,
  randomHex,
  repeat,
  SerialExecutor,
  seriesOf,
  silentLogger,
  sleep,
  systemClock,
  systemEnv,
  systemRandom,
  taskIds,
  taskLeaseId,
  withoutLeaseIds,
  withTimeout,
} from "./env/index.js";
export { type Named, TopNames } from "./instrumentation/top-names.js";
export { leasesOf } from "./leasehold.js";
export { onceOver } from "./once/index.js";
export {
  KEY_BYTES,
  type OnceState,
  type OnceStore,
  type OnceView,
  resourceOf,
  VALUE_BYTES,
} from "./once/port.js";
export { type Diagnosis } from "./stores/source.js";
export { comesBefore, explain } from "./tasks/explain.js";
export { GENERATOR_RESOURCE, Generator } from "./tasks/generator.js";
export {
  type AdminOutcome,
  CHECKPOINT_BYTES,
  type ClaimedTask,
  type ClaimOptions,
  type ClaimOutcome,
  type ClaimRequest,
  type CompleteOutcome,
  type CompleteRequest,
  checkTaskId,
  DEFAULTS,
  type DeclareLimitOutcome,
  type DueKinds,
  dueKindsOf,
  type EnqueueOutcome,
  type FailOutcome,
  type FailRequest,
  FIRST_VERSION,
  type FireRequest,
  type GeneratorState,
  type GeneratorWanted,
  type HeartbeatOutcome,
  type HeartbeatRequest,
  type Json,
  type KindKey,
  type KindStore,
  LARGEST_VERSION,
  LIMIT_SCOPES,
  type LimitOptions,
  type LimitScope,
  type LimitView,
  LONGEST_KEPT_MS,
  LONGEST_WINDOW_MS,
  leasesOfTask,
  limitOf,
  loadDeclarations,
  loadJsonSchemas,
  loadTicker,
  MOST_PER_KEY,
  MOST_RUNNING,
  MOST_STARTS,
  type NewTask,
  ORDERS,
  observed,
  Ready,
  type ReadyOptions,
  type Refused,
  type RequeueOutcome,
  ResultWaits,
  type RunNowOutcome,
  type ScheduleDeclaration,
  type ScheduleStore,
  type ScheduleView,
  startReaper,
  startTicking,
  TASK_STATES,
  type TaskDetails,
  type TaskEvent,
  type TaskGrant,
  type TaskKey,
  type TaskLeaseQuery,
  type TaskLimits,
  type TaskListener,
  type TaskQuery,
  type TaskResult,
  type TaskState,
  type TaskStore,
  type TasksClient,
  type TaskView,
  type Ticking,
  tasksOver,
  type UnhandledKind,
  unhandledKinds,
} from "./tasks/index.js";
export { decodeJson, endOfString, JsonTextError, readJson } from "./tasks/json-text.js";
export { MOST_SCHEDULES, SCHEDULE_NAME_BYTES } from "./tasks/schedules/port.js";

// What the public types of these classes hide.

/** Of a lease that a store granted, with a token or without. */
export function leaseIdOf(lease: AnyLease): LeaseId {
  invariant(lease instanceof HeldLease, "a store granted it");
  return lease.leaseId;
}

/** Null where the store gives no tokens. */
export function tokenOf(lease: AnyLease): number | null {
  return lease.isFenced ? lease.token : null;
}

/** When this process ends it does not release the lease, which then expires. */
export function keepUntilExpiry(lease: AnyLease): void {
  if (lease instanceof HeldLease) lease.isWorkedUnder = true;
}

/** A client over a store that is open already. @param owned what closes with it */
export function clientOver(store: LeaseStore, options: ClientOptions, owned: Owned): LeaseClient {
  return new LeaseClient(store, options, owned);
}
