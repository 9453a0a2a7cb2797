/** Load, decide, save: what the stores whose engines decide nothing have in common. */
export {
  type Change,
  EMPTY_QUEUE,
  type Engine,
  type Found,
  type KeyToLoad,
  type Lean,
  type LeanAnswers,
  type Loaded,
  type LoadedKeys,
  type LoadedQueue,
  mayStillSave,
  type QueuePosition,
  type Saved,
  type SaveResult,
  type Transaction,
  type Transactions,
} from "./engine.js";
export {
  type LeanOperations,
  type LeaseOperations,
  type OperationsOptions,
  operationsIn,
  operationsOn,
} from "./operations.js";
export { grantText, longest, type Merging, oncePerGrant } from "./rounds.js";
export { listRecords, matchesQuery } from "./views.js";
