/** What the calls of a program return: the outcomes of a store, with its failures as errors. */
import { invariant } from "../env/index.js";
import { LeaseholdError } from "../lease/index.js";
import type { AdminOutcome, EnqueueOutcome, Json, TaskResult } from "./port.js";

/** The outcome of a task that was added, or that has the `dedupeKey`. */
export type Enqueued = Exclude<EnqueueOutcome, { status: "failed" | "conflict" }>;
/** The result of `cancel`, `retry` and `delete`: the new state (of a deleted task, the last one), the state that does not allow it, or `unknown`. */
export type AdminResult = Exclude<AdminOutcome, { status: "failed" }>;

/**
 * A task with this `id` exists, and its kind, queue or data are others. Nothing was added for it. Enqueue new work
 * under a new id; repeat a call whose answer was lost with the same content.
 * @example
 * ```ts
 * import { connect, defineTask, TaskConflictError } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const mail = defineTask("mail");
 * const { id } = await leasehold.tasks.enqueue(mail, { to: "ada" });
 * await leasehold.tasks.enqueue(mail, { to: "joan" }, { id }).catch((error) => {
 *   if (!(error instanceof TaskConflictError)) throw error;
 *   console.log(error.id, "is the id of another task");
 * });
 * await leasehold.close();
 * ```
 */
export class TaskConflictError extends LeaseholdError {
  constructor(readonly id: string) {
    super(
      "TASK_CONFLICT",
      `task ${id} exists with another kind, queue or data, and nothing was added under this id: ` +
        "enqueue new work under a new id",
      { retryable: false, outcome: "none" },
    );
  }
}

/**
 * The task has ended without an output: it is `dead`, with the error of its last attempt in `error`, or `cancelled`, or
 * `expired`, because it had not begun in time. Or it is `unknown`: deleted, never added, or its transaction has not committed.
 * @example
 * ```ts
 * import { connect, defineTask, TaskFailedError } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const handle = await leasehold.tasks.enqueue(defineTask("mail"), { to: "ada@example.com" });
 * await leasehold.tasks.cancel(handle.id);
 * await handle.result().catch((error) => {
 *   if (!(error instanceof TaskFailedError)) throw error;
 *   console.log(error.id, "is", error.state, error.error);
 * });
 * await leasehold.close();
 * ```
 */
export class TaskFailedError extends LeaseholdError {
  constructor(
    readonly id: string,
    readonly state: "dead" | "cancelled" | "expired" | "unknown",
    readonly error: string | null,
  ) {
    super("TASK_FAILED", `task ${id} ${ENDED[state](error)}`, {
      retryable: false,
      outcome: "none",
    });
  }
}

const ENDED: Readonly<Record<TaskFailedError["state"], (error: string | null) => string>> = {
  dead: (error) =>
    `is dead${error === null ? "" : `: ${error}`}; retry it once the cause is removed`,
  cancelled: () => "was cancelled; retry it if its output is wanted after all",
  expired: () =>
    "had not begun within its startByMs; retry it if its output is wanted after all, and see whether enough workers run",
  unknown: () =>
    "does not exist: it was deleted, or never added; wait for a result after the transaction of enqueue has committed",
};

/** @throws TASK_FAILED */
export function outputOf({ id, state, output = null, error = null }: TaskResult): Json {
  invariant(state !== "pending" && state !== "running", "it has ended");
  if (state !== "done") throw new TaskFailedError(id, state, error);
  return output;
}

/** @throws the error of a failed outcome */
export function onlyOne([outcome]: readonly AdminOutcome[]): AdminResult {
  invariant(outcome, "one outcome per task");
  if (outcome.status === "failed") throw outcome.error;
  return outcome;
}

/** @throws the error of the first failed outcome; TASK_CONFLICT */
export function settled(outcomes: readonly EnqueueOutcome[]): Enqueued[] {
  return outcomes.map((outcome) => {
    if (outcome.status === "failed") throw outcome.error;
    if (outcome.status === "conflict") throw new TaskConflictError(outcome.id);
    return outcome;
  });
}
