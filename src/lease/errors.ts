/**
 * Errors that users meet. Outcomes of a race are values; an error says that something could not be
 * known, that the caller made a mistake, or that the right to go on has ended.
 * Every code has its section in docs/errors.md.
 */
export type ErrorCode =
  | "LEASE_LOST"
  | "LEASE_UNAVAILABLE"
  | "STORE_UNAVAILABLE"
  | "STORE_MISCONFIGURED"
  | "INVALID_OPTION"
  | "STALE_TOKEN"
  | "CLOSED";

/** Why a holder must stop. */
export type LostReason =
  /** Its time ran out without a renewal that was confirmed in time. */
  | "expired"
  /** The store has granted the resource to somebody else. */
  | "taken"
  /** An operator ended it. */
  | "revoked"
  /** The store no longer knows the grant. */
  | "gone"
  /** The store's answer contradicts what it said before. */
  | "inconsistent";

interface ErrorInit {
  /** Whether the same call may succeed later without any change. */
  retryable: boolean;
  /** `unknown`: the call may have taken effect although it failed. */
  outcome: "none" | "unknown";
  cause?: unknown;
}

/** Base of all errors of this package. Tell them apart by `code`, which never changes. */
export class LeaseholdError extends Error {
  readonly code: ErrorCode;
  readonly retryable: boolean;
  readonly outcome: "none" | "unknown";
  /** Where the error and its remedy are described. */
  readonly docs: string;

  constructor(code: ErrorCode, message: string, init: ErrorInit) {
    super(message, init.cause === undefined ? undefined : { cause: init.cause });
    this.name = new.target.name;
    this.code = code;
    this.retryable = init.retryable;
    this.outcome = init.outcome;
    this.docs = `leasehold/docs/errors.md#${code.toLowerCase()}`;
  }
}

/** The lease has ended under its holder. Reason of `lease.signal`, and rejection of `leases.run`. */
export class LeaseLostError extends LeaseholdError {
  constructor(
    readonly resource: string,
    readonly reason: LostReason,
  ) {
    super("LEASE_LOST", `the lease on "${resource}" is lost: ${reason}`, {
      retryable: true,
      outcome: "unknown",
    });
  }
}

/** Somebody else held the resource for as long as the caller was willing to wait. */
export class LeaseUnavailableError extends LeaseholdError {
  constructor(
    readonly resource: string,
    readonly waitedMs: number,
    readonly holder: string,
  ) {
    super(
      "LEASE_UNAVAILABLE",
      `"${resource}" is held by ${holder}; gave up after waitMs = ${waitedMs}`,
      { retryable: true, outcome: "none" },
    );
  }
}

/** The store did not answer, or not in time. */
export class StoreUnavailableError extends LeaseholdError {
  constructor(message: string, init: { outcome: "none" | "unknown"; cause?: unknown }) {
    super("STORE_UNAVAILABLE", message, { retryable: true, ...init });
  }
}

/** The store answered, but cannot work as it is set up: wrong URL, missing driver or rights. */
export class StoreMisconfiguredError extends LeaseholdError {
  constructor(message: string, cause?: unknown) {
    super("STORE_MISCONFIGURED", message, { retryable: false, outcome: "none", cause });
  }
}

/** An argument is out of its range. `path` names it. */
export class InvalidOptionError extends LeaseholdError {
  constructor(
    readonly path: string,
    problem: string,
  ) {
    super("INVALID_OPTION", `${path} ${problem}`, { retryable: false, outcome: "none" });
  }
}

/** A guard has already let a newer owner through. */
export class StaleTokenError extends LeaseholdError {
  constructor(
    readonly resource: string,
    readonly token: number,
    readonly lastToken: number,
  ) {
    super("STALE_TOKEN", `token ${token} for "${resource}" is older than ${lastToken}`, {
      retryable: false,
      outcome: "none",
    });
  }
}

/** The client was closed. */
export class ClosedError extends LeaseholdError {
  constructor(what = "this client") {
    super("CLOSED", `${what} is closed`, { retryable: false, outcome: "none" });
  }
}

/** An outcome for a call that failed as a whole before or after it may have taken effect. */
export function asStoreError(error: unknown, applied: "no" | "maybe"): LeaseholdError {
  if (error instanceof LeaseholdError) return error;
  // Whatever was thrown, also what cannot be made a string.
  const message = error instanceof Error ? error.message : `threw ${typeof error}`;
  return new StoreUnavailableError(`the store failed: ${message}`, {
    outcome: applied === "no" ? "none" : "unknown",
    cause: error,
  });
}
