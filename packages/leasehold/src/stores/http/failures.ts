/** Converts failures of the server's own store from the wire format to outcomes. */
import {
  type ErrorCode,
  type Failed,
  LeaseholdError,
  type RevokeOutcome,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../core/index.js";
import type * as wire from "../../wire/index.js";

/** The server revokes this lease only when a second operator confirms it. `revocation` is the request, which it keeps. */
class ConfirmationRequiredError extends LeaseholdError {
  constructor(readonly revocation: wire.RequestedRevocation) {
    const { id, resource, token, confirmBefore } = revocation;
    super(
      "CONFIRMATION_REQUIRED",
      `nothing was revoked yet: another operator must confirm revocation ${id} of "${resource}", token ${token}, before ${confirmBefore}`,
      { retryable: false, outcome: "none" },
    );
  }
}

/** Revocations that wait for a second operator become failures: the port has no such outcome. */
export function fromWireRevoked(
  outcomes: readonly (RevokeOutcome | wire.RevokeOutcome)[],
): RevokeOutcome[] {
  return outcomes.map((outcome) => {
    if (outcome.status !== "requested") return outcome as RevokeOutcome;
    const { status, ...revocation } = outcome;
    const error = new ConfirmationRequiredError(revocation);
    return { status: "failed", applied: "no", retryable: false, error, passedOn: true };
  });
}

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
