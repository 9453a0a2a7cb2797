export { dueKindsOf, type Tasks, type TasksClient, tasksOver } from "./client.js";
export { type KeyOptions, MOST_PER_KEY, ORDERS } from "./concurrency.js";
export {
  defineTask,
  FinalTaskError,
  type Handler,
  type HandlerContext,
  type TaskDefinition,
  type TaskHandler,
  type TaskOptions,
} from "./define.js";
export { observed, type TaskEvent, type TaskListener } from "./events.js";
export type { OutputOf, ResultOptions, TaskHandle } from "./handle.js";
export { CHECKPOINT_BYTES } from "./json.js";
export type { ContractOptions } from "./kinds/contract.js";
export type { JsonSchema } from "./kinds/json-schema.js";
export { leasesOfTask } from "./leases.js";
export {
  checkLimitKey,
  LIMIT_SCOPES,
  type LimitOptions,
  type Limits,
  LONGEST_WINDOW_MS,
  limitOf,
  MOST_RUNNING,
  MOST_STARTS,
} from "./limit-client.js";
export type {
  EnqueueTaskOptions,
  TaskStatsOptions,
  TaskStores,
  TasksOptions,
  TaskToEnqueue,
} from "./options.js";
export { byteLength } from "./payloads.js";
export type * from "./port.js";
export { TASK_STATES } from "./port.js";
export { Ready, type ReadyOptions } from "./ready.js";
export { startReaper } from "./reaper.js";
export { checkTaskId } from "./record.js";
export { ResultWaits } from "./result-waits.js";
export { type AdminResult, TaskConflictError, TaskFailedError } from "./results.js";
export { RetryLater, type RetryLaterOptions } from "./retry-later.js";
export {
  loadDeclarations,
  loadTicker,
  type Schedule,
  type Schedules,
  startTicking,
} from "./schedules/client.js";
export type { ScheduleOptions } from "./schedules/declaration.js";
export type * from "./schedules/port.js";
export {
  DEFAULTS,
  LONGEST_BACKOFF_MS,
  LONGEST_KEPT_MS,
  LONGEST_RUN_MS,
  type TaskDefaults,
} from "./settings.js";
export { type DueKinds, type UnhandledKind, unhandledKinds } from "./unhandled.js";
export { DEFAULT_GRACE_MS, FIRST_VERSION, LARGEST_VERSION } from "./values.js";
export type { Drained, DrainOptions, Worker, WorkerOptions } from "./worker.js";
