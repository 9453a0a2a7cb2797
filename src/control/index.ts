export * from "./history.js";
export { type Recorder, startRecorder } from "./recorder.js";
