export { createApp } from "./app.js";
export type { AppOptions, ServerApp } from "./app-options.js";
export type { Auth } from "./auth/authenticate.js";
export { consoleFiles } from "./console/console-files.js";
export { type ConsoleFile, type ConsoleFiles } from "./console/static.js";
export type { LeaseEvent, LeaseListener } from "./lease-calls.js";
export { DEFAULT_LIMITS, type ServerLimits } from "./limits/limits.js";
export { type Listening, type ListenOptions, listen } from "./listen.js";
export { type NodeRequest, type NodeResponse, nodeHandler } from "./node.js";
