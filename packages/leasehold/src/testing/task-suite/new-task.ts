import type { NewTask, TaskBackoff, TaskKey } from "../../tasks/port.js";

/** What a test says of a task. */
export type TaskChange = Partial<Omit<NewTask, "backoff">> & {
  readonly backoff?: Partial<TaskBackoff>;
};

/** A task that is due at once and has nothing special about it but what `change` says. */
export function newTaskOf(
  { namespace, id }: TaskKey,
  { backoff, ...change }: TaskChange = {},
): NewTask {
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
    backoff: { firstMs: 1_000, longestMs: 60_000, factor: 2, jitter: 0.5, ...backoff },
    ...change,
  };
}
