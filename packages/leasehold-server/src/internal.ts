/** What the verification shares of the command line. No promise of compatibility. */
export { EXIT } from "./cli/exit-codes.js";
export { integer } from "./cli/options.js";
export { colors, print } from "./cli/output.js";
export { progressLine } from "./cli/progress.js";
