/** Tasks between the port's names and the wire's. */
import type * as port from "../tasks/index.js";
import type { ClaimedTask, Task, TaskDetails } from "./tasks.js";

export function toWireTask(task: port.TaskView): Task {
  const { data, output } = task;
  return {
    ...sharedOf(task),
    ...(data !== undefined && { task_data: data }),
    ...(output !== undefined && { task_output: output }),
    id: task.id,
    scheduled_at: task.scheduledAt,
    processor: task.holder,
    last_heartbeat_at: task.heartbeatAt,
    must_heartbeat_before: task.expiresAt,
    started_at: task.startedAt,
    processed_at: task.finishedAt,
    kind: task.kind,
    queue: task.queue,
    priority: task.priority,
    state: task.state,
    attempt: task.attempt,
    failures: task.failures,
    crashes: task.crashes,
    maxAttempts: task.maxAttempts,
    crashLimit: task.crashLimit,
    maxRunMs: task.maxRunMs,
    startBy: task.startBy,
    postponed: task.postponed,
    dedupeKey: task.dedupeKey,
    version: task.version,
    concurrency: task.concurrency,
    grantId: task.grantId,
    fencingToken: task.token,
    remainingMs: task.remainingMs,
    error: task.error,
    createdAt: task.createdAt,
  };
}

export function fromWireTask(task: Task): port.TaskView {
  const { task_data, task_output } = task;
  return {
    ...sharedOf(task),
    ...(task_data !== undefined && { data: task_data }),
    ...(task_output !== undefined && { output: task_output }),
    id: task.id,
    kind: task.kind,
    queue: task.queue,
    priority: task.priority,
    state: task.state,
    error: task.error,
    dedupeKey: task.dedupeKey,
    // Absent from the answers of older servers, as are the version and the limits of its time.
    concurrency: task.concurrency ?? null,
    version: task.version ?? 1,
    attempt: task.attempt,
    failures: task.failures,
    crashes: task.crashes,
    maxAttempts: task.maxAttempts,
    crashLimit: task.crashLimit,
    maxRunMs: task.maxRunMs ?? null,
    startBy: task.startBy ?? null,
    postponed: task.postponed ?? 0,
    createdAt: task.createdAt,
    scheduledAt: task.scheduled_at,
    startedAt: task.started_at,
    heartbeatAt: task.last_heartbeat_at,
    expiresAt: task.must_heartbeat_before,
    holder: task.processor,
    grantId: task.grantId,
    token: task.fencingToken,
    remainingMs: task.remainingMs,
    finishedAt: task.processed_at,
  };
}

/** Optional fields with the same name on both sides. */
function sharedOf({
  dataPreview,
  outputPreview,
  progress,
  progressPreview,
}: Pick<port.TaskView, "dataPreview" | "outputPreview" | "progress" | "progressPreview">) {
  return {
    ...(dataPreview !== undefined && { dataPreview }),
    ...(outputPreview !== undefined && { outputPreview }),
    ...(progress !== undefined && { progress }),
    ...(progressPreview !== undefined && { progressPreview }),
  };
}

export function toWireDetails(task: port.TaskDetails): TaskDetails {
  const attempts = task.attempts.map(({ holder, token, ...attempt }) => ({
    ...attempt,
    processor: holder,
    fencingToken: token,
  }));
  const { data: task_data, output: task_output, progress, checkpoint } = task;
  return { ...toWireTask(task), task_data, task_output, progress, checkpoint, attempts };
}

export function fromWireDetails(task: TaskDetails): port.TaskDetails {
  const attempts = task.attempts.map(({ processor, fencingToken, ...attempt }) => ({
    ...attempt,
    holder: processor,
    token: fencingToken,
  }));
  const { task_data: data, task_output: output, progress, checkpoint } = task;
  return { ...fromWireTask(task), data, output, progress, checkpoint, attempts };
}

export function toWireClaimed(task: port.ClaimedTask, processor: string): ClaimedTask {
  return {
    id: task.id,
    task_data: task.data,
    scheduled_at: task.scheduledAt,
    processor,
    must_heartbeat_before: task.expiresAt,
    kind: task.kind,
    queue: task.queue,
    priority: task.priority,
    state: "running",
    attempt: task.attempt,
    failures: task.failures,
    crashes: task.crashes,
    maxAttempts: task.maxAttempts,
    dedupeKey: task.dedupeKey,
    version: task.version,
    leaseId: task.leaseId,
    fencingToken: task.token,
    ttlMs: task.ttlMs,
    remainingMs: task.remainingMs,
    previousProcessor: task.previousHolder,
    checkpoint: task.checkpoint,
    maxRunMs: task.maxRunMs,
    postponed: task.postponed,
  };
}

export function fromWireClaimed(task: ClaimedTask): port.ClaimedTask {
  return {
    id: task.id,
    kind: task.kind,
    queue: task.queue,
    priority: task.priority,
    data: task.task_data,
    leaseId: task.leaseId,
    token: task.fencingToken,
    attempt: task.attempt,
    failures: task.failures,
    crashes: task.crashes,
    maxAttempts: task.maxAttempts,
    dedupeKey: task.dedupeKey,
    scheduledAt: task.scheduled_at,
    previousHolder: task.previousProcessor,
    // As those after it, absent from the answers of older servers.
    version: task.version ?? 1,
    checkpoint: task.checkpoint ?? null,
    maxRunMs: task.maxRunMs ?? null,
    postponed: task.postponed ?? 0,
    ttlMs: task.ttlMs,
    remainingMs: task.remainingMs,
    expiresAt: task.must_heartbeat_before,
  };
}
