import { reasonOf } from "../env/index.js";
import { LeaseholdError, StoreUnavailableError } from "./errors.js";

/** An outcome for a call that failed as a whole before or after it may have taken effect. */
export function asStoreError(error: unknown, applied: "no" | "maybe"): LeaseholdError {
  if (error instanceof LeaseholdError) return error;
  return new StoreUnavailableError(`the store failed: ${reasonOf(error)}`, {
    outcome: applied === "no" ? "none" : "unknown",
    cause: error,
  });
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
