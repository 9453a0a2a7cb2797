export { type ManualClock, manualClock, manualEnv, seededRandom } from "./manual-clock.js";
