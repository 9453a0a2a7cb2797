/** The database of simulated worlds, whose checkers look into its records: for the verification and the simulator. */

export { MemoryKindStore } from "./kinds.js";
export { MemoryOnceStore } from "./once.js";
export { MemoryScheduleStore } from "./schedules.js";
export { MemoryLeaseState, MemoryLeaseStore } from "./store.js";
export { MemoryTaskState } from "./task-state.js";
export { MemoryTaskStore } from "./tasks.js";
