export type * from "./port.js";
export { TASK_STATES } from "./port.js";
export { Ready } from "./ready.js";
export { startReaper } from "./reaper.js";
