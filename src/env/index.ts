export { invariant } from "./assert.js";
export { type Clock, inBackground, sleep, systemClock, type Timer } from "./clock.js";
export { type Env, systemEnv } from "./env.js";
export {
  digestOf,
  grantIdOf,
  holderLeaseId,
  newHolder,
  newLeaseId,
  taskIds,
  taskLeaseId,
  withoutLeaseIds,
} from "./ids.js";
export { type Logger, silentLogger } from "./logger.js";
export {
  type LabelsOf,
  METRICS,
  type MetricName,
  type MetricOf,
} from "./metrics.js";
export { jittered, type Random, systemRandom } from "./random.js";
export { Recent } from "./recent.js";
export { type Repeating, repeat } from "./repeat.js";
export { CLOSING_SIGNALS, type ClosingSignal, closeOnSignals, getsSignals } from "./signals.js";
export type {
  MeasureOptions,
  Observation,
  OpenSpan,
  SpanOptions,
  Telemetry,
  TraceContext,
} from "./telemetry.js";
export { telling } from "./tell.js";
export { nextTurn } from "./turn.js";
