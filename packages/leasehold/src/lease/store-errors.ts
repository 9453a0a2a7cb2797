import { reasonOf } from "../env/index.js";
import { InvalidOptionError, LeaseholdError, StoreUnavailableError } from "./errors.js";
import type { Failed } from "./port.js";

/** An outcome for a call that failed as a whole before or after it may have taken effect. */
export function asStoreError(error: unknown, applied: "no" | "maybe"): LeaseholdError {
  if (error instanceof LeaseholdError) return error;
  return new StoreUnavailableError(`the store failed: ${reasonOf(error)}`, {
    outcome: applied === "no" ? "none" : "unknown",
    cause: error,
  });
}

/**
 * The outcome of a call that threw. Unless the error says more, it may have taken effect.
 * @param applied in place of what the error says, where more is known
 */
export function failedOutcome(error: unknown, applied?: Failed["applied"]): Failed {
  const known = asStoreError(error, "maybe");
  const outcome = applied === undefined ? known.outcome : applied === "no" ? "none" : "unknown";
  const reported =
    known.outcome === outcome || !known.retryable
      ? known
      : new StoreUnavailableError(known.message, { outcome, cause: known });
  return {
    status: "failed",
    applied: outcome === "none" ? "no" : "maybe",
    retryable: reported.retryable,
    error: reported,
  };
}

/** The store refuses the request itself, now and later: a value that it cannot keep, or more than it takes. */
export function refusedRequest(said: string, remedy = "change its values"): InvalidOptionError {
  return new InvalidOptionError("the request", `is refused for good: ${said}; ${remedy}`);
}

/** Whether the store refused the request itself. In a batch, this may be the fault of another request. */
export function isRefusedRequest(outcome: unknown): outcome is Failed {
  const { status, applied, error } = outcome as Partial<Failed>;
  return status === "failed" && applied === "no" && error?.code === "INVALID_OPTION";
}

/** What a copy of the error keeps besides its message and its outcome. */
export function detailsOf({
  retryAfterMs,
  refusedBy,
}: StoreUnavailableError): Pick<StoreUnavailableError, "retryAfterMs" | "refusedBy"> {
  return {
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(refusedBy !== undefined && { refusedBy }),
  };
}
