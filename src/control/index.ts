export * from "./audit.js";
export * from "./history.js";
export * from "./key-acts.js";
export * from "./keys.js";
export * from "./limits.js";
export * from "./operations.js";
export * from "./pauses.js";
export { startRecorder } from "./recorder.js";
