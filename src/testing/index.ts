export type { Expect, Matchers, TestContext, TestFramework } from "./framework.js";
export {
  exerciseLeaseStore,
  type LeaseHarness,
  type OpenedLeaseStore,
} from "./lease-suite/index.js";
export { type ManualClock, manualClock, manualEnv, seededRandom } from "./manual-clock.js";
export {
  exerciseTaskStore,
  type OpenedTaskStore,
  type TaskHarness,
} from "./task-suite/index.js";
