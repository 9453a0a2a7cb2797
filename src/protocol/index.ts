export * from "./events.js";
export { Failed } from "./fields.js";
export * from "./generator.js";
export * from "./leases.js";
export * from "./mapping.js";
export * from "./problem.js";
export * from "./task-batches.js";
export * from "./tasks.js";
export * from "./wire.js";
