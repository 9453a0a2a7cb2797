import { LeaseholdError } from "./errors.js";

/**
 * What the call waits for did not happen within its `timeoutMs`: a task has not ended, or a queue is not empty. The wait
 * has changed nothing: wait again, or raise `timeoutMs`. `cause` is why the store could not tell, if that was the reason.
 * @example
 * ```ts
 * import { connect, defineTask, TimedOutError } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const handle = await leasehold.tasks.enqueue(defineTask("mail"), { to: "ada@example.com" });
 * await handle.result({ timeoutMs: 10 }).catch((error) => {
 *   if (!(error instanceof TimedOutError)) throw error;
 *   console.log("not within", error.timeoutMs, "ms");
 * });
 * await leasehold.close();
 * ```
 */
export class TimedOutError extends LeaseholdError {
  constructor(
    what: string,
    readonly timeoutMs: number,
    cause?: unknown,
  ) {
    super(
      "TIMED_OUT",
      `${what} within timeoutMs = ${Math.round(timeoutMs)}: wait again, or raise timeoutMs`,
      { retryable: true, outcome: "none", cause },
    );
  }
}
