import type { NewTask, TaskKey } from "../../tasks/port.js";

/** A task that is due at once and has nothing special about it but what `change` says. */
export function newTaskOf({ namespace, id }: TaskKey, change: Partial<NewTask> = {}): NewTask {
  return {
    namespace,
    id,
    kind: "kind",
    queue: "queue",
    priority: 0,
    data: null,
    scheduledAt: null,
    dedupeKey: null,
    maxAttempts: 3,
    crashLimit: 3,
    backoffMs: 1_000,
    maxBackoffMs: 60_000,
    ...change,
  };
}
