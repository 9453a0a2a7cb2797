/** Maps failures of ZooKeeper to outcomes: did the request take effect, and can a retry help? */

import { isInstance, reasonOf } from "../../env/index.js";
import {
  type Failed,
  LeaseholdError,
  refusedRequest,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../lease/index.js";

/** The server's result codes that the store handles. */
export const CODES = {
  CONNECTION_LOSS: -4,
  MARSHALLING_ERROR: -5,
  BAD_ARGUMENTS: -8,
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

/** The server rejected a request and applied none of it. */
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
  return isInstance(error, Refused) && codes.some((code) => CODES[code] === error.code);
}

/** There was no response, and there will be none. */
export class Unanswered extends Error {
  constructor(
    message: string,
    /** Whether the request may have reached the server. */
    readonly sent: boolean,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/** Returns the error for the caller. @param unknown whether something may have taken effect */
export function storeError(error: unknown, unknown: boolean): LeaseholdError {
  if (error instanceof LeaseholdError) return error;
  if (isRefused(error, "NO_AUTH", "INVALID_ACL", "AUTH_FAILED")) {
    return new StoreMisconfiguredError(
      `ZooKeeper reported: ${error.message}; use the user and password that own the znodes below the chroot (zookeeper://user:password@...), or grant the user cdrwa on them with setAcl`,
      error,
    );
  }
  if (isRefused(error, "MARSHALLING_ERROR", "BAD_ARGUMENTS")) {
    return refusedRequest(`ZooKeeper reported: ${error.message}`);
  }
  return new StoreUnavailableError(`ZooKeeper failed: ${reasonOf(error)}`, {
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
