import { LeaseholdError } from "./errors.js";

/**
 * The handler of a task has run for its `maxRunMs`: the reason of its `signal`. The attempt fails, whatever the handler returns.
 * @example
 * ```ts
 * import { defineTask, TaskTimeoutError } from "leasehold";
 *
 * const report = defineTask("report", { maxRunMs: 60_000 });
 * export const handler = report.handle(async (_, { signal }) => {
 *   signal.addEventListener("abort", () => {
 *     if (signal.reason instanceof TaskTimeoutError) console.log("ran for", signal.reason.maxRunMs);
 *   });
 * });
 * ```
 */
export class TaskTimeoutError extends LeaseholdError {
  constructor(
    readonly id: string,
    readonly maxRunMs: number,
  ) {
    const what = `task ${id} ${ranTooLong(maxRunMs)}: raise its maxRunMs, or do less in it`;
    super("TASK_TIMEOUT", what, { retryable: true, outcome: "unknown" });
  }
}

/** What is recorded of an attempt that ran longer than it may. */
export function ranTooLong(maxRunMs: number): string {
  return `ran longer than ${maxRunMs < 1_000 ? `${maxRunMs} ms` : `${maxRunMs / 1_000} s`}`;
}

/**
 * So many handlers of a worker go on although their tasks are lost that it claims no more: `maxAbandoned` of `tasks.work`.
 * @example
 * ```ts
 * import { connect, defineTask, WorkerStuckError } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const worker = leasehold.tasks.work([defineTask("mail").handle(() => "sent")]);
 * worker.done.catch((error) => {
 *   if (!(error instanceof WorkerStuckError)) throw error;
 *   process.exit(1);
 * });
 * await leasehold.close();
 * ```
 */
export class WorkerStuckError extends LeaseholdError {
  constructor(readonly abandoned: number) {
    super(
      "WORKER_STUCK",
      `the worker claims no more tasks, because ${abandoned} ${abandoned === 1 ? "handler whose task has ended still runs" : "handlers whose tasks have ended still run"}: restart the process, and let handlers stop when their signal aborts`,
      { retryable: false, outcome: "none" },
    );
  }
}
