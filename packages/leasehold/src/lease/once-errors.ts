import { LeaseholdError } from "./errors.js";

/**
 * Another caller has recorded the work of `key` as done, at the time `at`: roll back what this one did in the meantime.
 * @example
 * ```ts
 * import { connect, OnceDoneError } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * await leasehold.once("bill-ada", () => "sent").catch((error) => {
 *   if (!(error instanceof OnceDoneError)) throw error;
 *   console.log(error.key, "was done by", error.by, "at", error.at);
 * });
 * await leasehold.close();
 * ```
 */
export class OnceDoneError extends LeaseholdError {
  constructor(
    readonly key: string,
    readonly by: string,
    readonly at: string,
  ) {
    super(
      "ONCE_DONE",
      `"${key}" was done by ${by} at ${at}, while this caller had lost its lease: roll back, and drop this work`,
      { retryable: false, outcome: "none" },
    );
  }
}

/**
 * The work of `key` has failed `failures` times, its `maxAttempts`: no caller tries again before an operator retries the key.
 * `lastError` is the message of the last failure.
 * @example
 * ```ts
 * import { connect, OnceFailedError } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const bill = () => Promise.reject(new Error("the bank is closed"));
 * await leasehold.once("bill-ada", { maxAttempts: 1 }, bill).catch(() => {});
 * await leasehold.once("bill-ada", bill).catch((error) => {
 *   if (!(error instanceof OnceFailedError)) throw error;
 *   console.log(error.key, "failed", error.failures, "times:", error.lastError);
 * });
 * await leasehold.close();
 * ```
 */
export class OnceFailedError extends LeaseholdError {
  constructor(
    readonly key: string,
    readonly failures: number,
    readonly lastError: string,
  ) {
    super(
      "ONCE_FAILED",
      `"${key}" has failed ${failures === 1 ? "once" : `${failures} times`}, the last time with: ${lastError}; remove the cause, then retry the key`,
      { retryable: false, outcome: "none" },
    );
  }
}
