/**
 * The model of the simulator, without a user interface: five processes that run the real election on
 * virtual clocks contend for one lease. A script (scenario, seed, settings, acts) decides the course.
 */
export { type Act, type AnswerKind, type CutWay, type Target, type TimedAct } from "./acts.js";
export { type Choice, EXPERIMENTS, type Experiment } from "./experiments.js";
export type * from "./frame.js";
export { exportTest, type Outcome, replay } from "./outcome.js";
export { Playground } from "./playground.js";
export { QUIZ, type QuizQuestion } from "./quiz.js";
export {
  type Caption,
  captionOf,
  SCENARIOS,
  type Scenario,
  type ScenarioId,
  scenarioById,
} from "./scenarios.js";
export {
  decodeScript,
  encodeScript,
  LONGEST_RUN_MS,
  newScript,
  type Script,
  ScriptError,
} from "./script.js";
export {
  CLOCK_RANGE,
  DEFAULTS,
  fitSettings,
  longestRenewEveryMs,
  NODES,
  type NodeName,
  type NumberSetting,
  type PerNode,
  RANGES,
  type Range,
  type Settings,
} from "./settings.js";
export { describeAct } from "./words.js";
