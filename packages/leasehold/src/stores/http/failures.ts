/** Converts failures of the server's own store from the wire format to outcomes. */
import {
  type ErrorCode,
  type Failed,
  LeaseholdError,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../lease/index.js";
import type * as wire from "../../wire/index.js";

export function isWireFailed(outcome: unknown): outcome is wire.Failed {
  return (outcome as { status?: unknown } | null)?.status === "failed";
}

export function fromWireFailed({
  applied,
  retryable,
  error: { code, message },
}: wire.Failed): Failed {
  const outcome = applied === "no" ? "none" : "unknown";
  const error = errorOf(code, message, { retryable, outcome });
  return { status: "failed", applied, retryable, error, passedOn: true };
}

function errorOf(
  code: ErrorCode,
  message: string,
  init: { retryable: boolean; outcome: "none" | "unknown" },
): LeaseholdError {
  if (code === "STORE_UNAVAILABLE") return new StoreUnavailableError(message, init);
  if (code === "STORE_MISCONFIGURED") return new StoreMisconfiguredError(message);
  return new LeaseholdError(code, message, init);
}
