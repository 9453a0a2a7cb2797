export * from "./errors.js";
export { checkName } from "./names.js";
export {
  type AcquireOptions,
  type ClientOptions,
  checkInteger,
  checkNumber,
  type LeaseOptions,
} from "./options.js";
export type * from "./port.js";
export * as rules from "./rules.js";
export type { LeaseRecord } from "./rules.js";
