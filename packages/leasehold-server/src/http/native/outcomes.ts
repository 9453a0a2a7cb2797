import type { Failed } from "leasehold/internal";

/** The wire format of an outcome: the error of a failure becomes a code and a message. */
export function toWireOutcome<Outcome extends { status: string }>(outcome: Outcome | Failed) {
  if (!isFailed(outcome)) return outcome;
  const { status, applied, retryable, error } = outcome;
  return { status, applied, retryable, error: { code: error.code, message: error.message } };
}

function isFailed(outcome: { status: string }): outcome is Failed {
  return outcome.status === "failed";
}
