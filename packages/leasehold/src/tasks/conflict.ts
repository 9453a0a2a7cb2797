import { LeaseholdError } from "../core/index.js";

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
