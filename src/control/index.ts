export * from "./history.js";
export { startRecorder } from "./recorder.js";
