export type { Telemetry } from "../env/index.js";
export { type OpenTelemetryOptions, openTelemetry } from "./open-telemetry.js";
