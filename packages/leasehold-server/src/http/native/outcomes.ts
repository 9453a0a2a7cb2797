import type { Failed } from "leasehold/internal";

/** An outcome as it travels in a batch: a failure with its error as code and message. */
export function toWireOutcome<Outcome extends { status: string }>(outcome: Outcome | Failed) {
  if (!isFailed(outcome)) return outcome;
  const { status, applied, retryable, error } = outcome;
  return { status, applied, retryable, error: { code: error.code, message: error.message } };
}

function isFailed(outcome: { status: string }): outcome is Failed {
  return outcome.status === "failed";
}
