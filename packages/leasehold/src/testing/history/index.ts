/** Histories of what clients asked of a lease store, and what they prove about it. */
export { fromJsonLines, type HistoryEntry, type Operation, toJsonLines } from "./entry.js";
export { checkGrants, type GrantsReport, type GrantViolation } from "./grants.js";
export {
  checkLinearizability,
  type Linearizability,
  type LinearizabilityOptions,
  type ResourceVerdict,
} from "./linearizability.js";
export { History, recordHistory } from "./recorder.js";
