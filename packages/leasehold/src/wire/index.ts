/**
 * What both sides of the HTTP API share: constants, mappings and plain types. It depends on no schema
 * library, so clients and browsers can load it. The server checks its schemas against these types
 * (protocol/same.ts of leasehold-server).
 */
export type * from "./console.js";
export type * from "./events.js";
export type { Failed } from "./failed.js";
export * from "./headers-and-bounds.js";
export * from "./lease-ids.js";
export type * from "./leases.js";
export type * from "./once.js";
export type * from "./operator.js";
export * from "./problems.js";
export type * from "./schedules.js";
export * from "./task-mapping.js";
export type * from "./tasks.js";
export { taskInPath } from "./tasks.js";
