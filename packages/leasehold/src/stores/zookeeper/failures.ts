/** What a failure of ZooKeeper means to a caller: did the request take effect, is a retry of use? */
import {
  type Failed,
  LeaseholdError,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../core/index.js";

/** Of the server's answers, those that we reckon with. */
export const CODES = {
  CONNECTION_LOSS: -4,
  NO_NODE: -101,
  NO_AUTH: -102,
  BAD_VERSION: -103,
  NODE_EXISTS: -110,
  NOT_EMPTY: -111,
  SESSION_EXPIRED: -112,
  INVALID_ACL: -114,
  AUTH_FAILED: -115,
} as const;
export type Code = keyof typeof CODES;

/** The server has refused a request: nothing of it was done. */
export class Refused extends Error {
  constructor(
    readonly code: number,
    cause: unknown,
  ) {
    const name = Object.entries(CODES).find(([, value]) => value === code)?.[0];
    super(name ?? `error ${code}`, { cause });
  }
}

export function isRefused(error: unknown, ...codes: readonly Code[]): error is Refused {
  return error instanceof Refused && codes.some((code) => CODES[code] === error.code);
}

/** No answer, and none to come. */
export class Unanswered extends Error {
  constructor(
    message: string,
    /** Whether the server may have got the request. */
    readonly sent: boolean,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/** What the caller of the store is told. @param unknown whether something may have taken effect */
export function storeError(error: unknown, unknown: boolean): LeaseholdError {
  if (error instanceof LeaseholdError) return error;
  if (isRefused(error, "NO_AUTH", "INVALID_ACL", "AUTH_FAILED")) {
    return new StoreMisconfiguredError(
      `ZooKeeper says: ${error.message}; give the user and password that the znodes below the chroot belong to (zookeeper://user:password@...), or its user the rights cdrwa on them by setAcl`,
      error,
    );
  }
  const message = error instanceof Error ? error.message : String(error);
  return new StoreUnavailableError(`ZooKeeper failed: ${message}`, {
    outcome: unknown ? "unknown" : "none",
    cause: error,
  });
}

export function failedOutcome(error: unknown, unknown: boolean): Failed {
  const known = storeError(error, unknown);
  return {
    status: "failed",
    applied: unknown ? "maybe" : "no",
    retryable: known.retryable,
    error: known,
  };
}
