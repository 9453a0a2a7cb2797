export {
  addReport,
  type Failure,
  newReport,
  type Report,
  runSeed,
  scenarioOf,
  shortest,
} from "./campaign.js";
export { EXPECTED, EXPECTED_FIGURES, FAULT_KINDS, missing } from "./coverage.js";
export { SCENARIOS } from "./scenarios/index.js";
export { run } from "./simulation.js";
