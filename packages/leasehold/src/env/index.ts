export { invariant } from "./assert.js";
export { Backoff } from "./backoff.js";
export { type Clock, sleep, systemClock, type Timer } from "./clock.js";
export {
  classOf,
  describe,
  isError,
  isInstance,
  propertyOf,
  reasonOf,
  shown,
  storable,
} from "./describe.js";
export { formatDuration, parseDuration } from "./duration.js";
export { type Env, envFrom, guardedEnv, systemEnv } from "./env.js";
export { EventQueue, eventsUntil, type Resync } from "./event-queue.js";
export { guarded, isPromise } from "./guarded.js";
export { guardedLogger } from "./guarded-logger.js";
export { isHeldByOneTimer } from "./idle.js";
export {
  claimDigestOf,
  digestOf,
  type GrantId,
  grantIdOf,
  holderLeaseId,
  type LeaseId,
  newHolder,
  newLeaseId,
  randomHex,
  taskIds,
  taskLeaseId,
  withoutLeaseIds,
} from "./ids.js";
export { isoTime } from "./iso-time.js";
export { chunked, zip } from "./lists.js";
export { type Logger, silentLogger } from "./logger.js";
export {
  BOUNDARIES,
  type LabelsOf,
  METRICS,
  type MetricKind,
  type MetricName,
  type MetricOf,
  seriesOf,
} from "./metrics.js";
export { notesOn } from "./name-notes.js";
export { type Address, otherProtocolAt, type Protocol } from "./protocols.js";
export { jittered, type Random, systemRandom } from "./random.js";
export { Recent } from "./recent.js";
export { type Repeating, repeat } from "./repeat.js";
export type { Nested, Scope } from "./scope.js";
export { SerialExecutor } from "./serial.js";
export { CLOSING_SIGNALS, type ClosingSignal, closeOnSignals, getsSignals } from "./signals.js";
export { measureStalls } from "./stalls.js";
export {
  guardedTelemetry,
  type MeasureOptions,
  type Observation,
  type OpenSpan,
  type SpanAttributes,
  type SpanOptions,
  type Tallied,
  type Telemetry,
  type TraceContext,
} from "./telemetry.js";
export { untilAborted, withTimeout } from "./timeout.js";
export { nextTurn } from "./turn.js";
export { compareUtf8 } from "./utf8-order.js";
export { warningLogger } from "./warnings.js";
