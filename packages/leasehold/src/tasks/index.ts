export {
  dueKindsOf,
  type EnqueueTaskOptions,
  type Tasks,
  type TasksClient,
  type TasksOptions,
  type TaskToEnqueue,
  tasksOver,
} from "./client.js";
export {
  DEFAULTS,
  defineTask,
  FinalTaskError,
  type Handler,
  type HandlerContext,
  LONGEST_KEPT_MS,
  type TaskDefaults,
  type TaskDefinition,
  type TaskHandler,
  type TaskOptions,
} from "./define.js";
export { observed, type TaskEvent, type TaskListener } from "./events.js";
export { GENERATOR_RESOURCE, Generator, type GeneratorOptions } from "./generator.js";
export { CHECKPOINT_BYTES } from "./json.js";
export { leasesOfTask } from "./leases.js";
export type * from "./port.js";
export { TASK_STATES } from "./port.js";
export { Ready, type ReadyOptions } from "./ready.js";
export { startReaper } from "./reaper.js";
export { checkTaskId } from "./record.js";
export { type AdminResult, type Enqueued, TaskConflictError } from "./results.js";
export { type DueKinds, type UnhandledKind, unhandledKinds } from "./unhandled.js";
export type { Worker, WorkerOptions } from "./worker.js";
