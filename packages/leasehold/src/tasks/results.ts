/** What the calls of a program return: the outcomes of a store, with its failures as errors. */
import { LeaseholdError } from "../core/index.js";
import { invariant } from "../env/index.js";
import type { AdminOutcome, EnqueueOutcome } from "./port.js";

/** The result of `enqueue`: the id of the task, or of the unfinished task that has the same `dedupeKey`. */
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
