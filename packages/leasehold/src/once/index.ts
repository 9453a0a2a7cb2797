/**
 * Work that succeeds at most once: a lease while it runs, and a record when it has succeeded. Read port.ts first, then once.ts.
 */
export type { OnceLease } from "./lease.js";
export {
  type OnceClient,
  type OnceOptions,
  type OnceResult,
  type OnceWork,
  onceOver,
} from "./once.js";
export * from "./port.js";
