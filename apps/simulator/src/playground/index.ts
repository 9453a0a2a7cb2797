/**
 * The model of the simulator, without a user interface: five processes run the real election code on
 * virtual clocks and contend for one lease. A script (scenario, seed, settings, actions) determines the run.
 */
export type { Action } from "./actions.js";
export { EXPERIMENTS, type Experiment } from "./experiments.js";
export type * from "./frame.js";
/** Exported tests call `replay`. */
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
export { describeAction } from "./words.js";
