/**
 * The model of the simulator, without a user interface: five processes that run the real election on
 * virtual clocks contend for one lease. A script (scenario, seed, settings, acts) decides the course.
 */
export type { Act } from "./acts.js";
export { EXPERIMENTS, type Experiment } from "./experiments.js";
export type * from "./frame.js";
/** `replay` is what exported tests call. */
export { exportTest, /** @internal */ replay } from "./outcome.js";
export { Playground } from "./playground.js";
export { QUIZ, type QuizQuestion } from "./quiz.js";
export {
  captionOf,
  SCENARIOS,
  type ScenarioId,
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
  fitSettings,
  longestRenewEveryMs,
  NODES,
  type NumberSetting,
  RANGES,
  type Settings,
} from "./settings.js";
export { describeAct } from "./words.js";
