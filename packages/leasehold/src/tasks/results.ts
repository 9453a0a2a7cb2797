/** What the calls of a program return: the outcomes of a store, with its failures as errors. */
import { invariant } from "../env/index.js";
import { TaskConflictError } from "./conflict.js";
import type { AdminOutcome, EnqueueOutcome } from "./port.js";

/** The result of `enqueue`: the id of the task, or of the unfinished task that has the same `dedupeKey`. */
export type Enqueued = Exclude<EnqueueOutcome, { status: "failed" | "conflict" }>;
/** The result of `cancel` and `retry`: the new state, the state that does not allow it, or `unknown`. */
export type AdminResult = Exclude<AdminOutcome, { status: "failed" }>;

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
