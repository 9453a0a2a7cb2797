export { type LabelsOf, METRICS, type Telemetry } from "../env/index.js";
export { type OpenTelemetry, type OpenTelemetryOptions, openTelemetry } from "./open-telemetry.js";
export { type Prefixed, TopPrefixes } from "./top-prefixes.js";
