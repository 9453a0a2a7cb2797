export type { Expect, Matchers, TestContext, TestFramework } from "./framework.js";
export {
  checkGrants,
  checkLinearizability,
  fromJsonLines,
  type GrantsReport,
  type GrantViolation,
  History,
  type HistoryEntry,
  type Linearizability,
  type LinearizabilityOptions,
  type Operation,
  type ResourceVerdict,
  recordHistory,
  toJsonLines,
} from "./history/index.js";
export { interleaving } from "./interleaving.js";
export {
  exerciseLeaseStore,
  type LeaseHarness,
  type OpenedLeaseStore,
} from "./lease-suite/index.js";
export { type ManualClock, manualClock, manualEnv, seededRandom } from "./manual-clock.js";
export { exerciseOnceStore, type OnceHarness, type OpenedOnceStore } from "./once-suite/index.js";
export type { OpenedScheduleStore } from "./schedule-fixture.js";
export { exerciseScheduleStore, type ScheduleHarness } from "./schedule-suite.js";
export {
  exerciseTaskStore,
  type OpenedTaskStore,
  type TaskHarness,
} from "./task-suite/index.js";
