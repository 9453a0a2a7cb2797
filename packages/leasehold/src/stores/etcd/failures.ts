/** Maps failures of etcd to outcomes: did the request take effect, and can a retry help? */

import {
  asStoreError,
  ClosedError,
  connectionReason,
  type Failed,
  type LeaseholdError,
  refusedRequest,
  StoreMisconfiguredError,
  StoreUnavailableError,
  serverProblem,
  wasNotSent,
} from "../../core/index.js";
import type { ErrorAnswer } from "./connection-api.js";

/** Why a call failed, besides the error for users. */
export class CallFailure extends Error {
  constructor(
    readonly error: LeaseholdError,
    /**
     * `unauthenticated`: the token expired; `noLease`: an engine lease expired; `compacted`: the
     * requested revision is gone; `unreachable`: the connection failed; `noHttp2`: the server does not
     * speak what gRPC needs.
     */
    readonly reason:
      | "unauthenticated"
      | "noLease"
      | "compacted"
      | "unreachable"
      | "noHttp2"
      | "other" = "other",
  ) {
    super(error.message);
  }
}

/** Remedies for permanent failures, by a part of etcd's message. Nothing was applied. */
const MISCONFIGURED: readonly (readonly [text: string, remedy: string])[] = [
  ["invalid user ID or password", "check the user and password of the URL"],
  ["authentication is not enabled", "remove user and password from the URL, or enable auth"],
  ["user name is empty", "put user:password@ into the URL"],
  ["permission denied", "grant the user's role readwrite below the path of the URL"],
  [
    "CommonName of client",
    "with users, its JSON gateway takes certificates without a common name only: use such a one, or gRPC (?transport=grpc)",
  ],
  ["too many operations in txn", "start etcd with --max-txn-ops=128, its default, or more"],
  ["database space exceeded", "compact and defragment etcd, then `etcdctl alarm disarm`"],
];

/** The same for a request that etcd does not take. */
const TOO_LARGE =
  "start etcd with --max-request-bytes=1572864, its default, or more, or use smaller metadata";

/** Messages of requests that etcd rejected before doing anything; a retry may succeed. */
const REFUSED = ["too many requests", "not capable", "rate limit"];
const UNAUTHENTICATED = ["invalid auth token", "revision of auth store is old"];

/** @param status of HTTP @param text the body */
export function answeredFailure(status: number, text: string, origin: string): CallFailure {
  const answer = parse(text);
  if (!answer && MISCONFIGURED.some(([part]) => text.includes(part))) {
    return saidFailure({ message: text.trim() });
  }
  if (!answer) {
    if (status >= 500) return unavailable(`${origin} returned status ${status}`, "unknown");
    return new CallFailure(
      new StoreMisconfiguredError(
        `${origin} returned status ${status}: is this the client URL of an etcd 3.4 or later, with its gRPC gateway on?`,
      ),
    );
  }
  return saidFailure(answer);
}

/** Maps an error reported by etcd, in a response or in a stream. */
export function saidFailure(answer: ErrorAnswer): CallFailure {
  const said = answer.message ?? answer.error ?? "an error without a message";
  const says = (texts: readonly string[]) => texts.some((text) => said.includes(text));
  const message = `etcd says: ${said}`;
  const remedy = MISCONFIGURED.find(([text]) => said.includes(text))?.[1];
  if (remedy) return new CallFailure(new StoreMisconfiguredError(`${message}; ${remedy}`));
  if (says(["request is too large", "received message larger than max"]))
    return new CallFailure(refusedRequest(message, TOO_LARGE));
  if (says(UNAUTHENTICATED)) return unavailable(said, "none", "unauthenticated");
  if (says(["requested lease not found"])) return unavailable(said, "none", "noLease");
  if (says(["required revision has been compacted"])) return unavailable(said, "none", "compacted");
  if (says(REFUSED)) return unavailable(said, "none");
  // 3 is "invalid argument": etcd does not understand the request, and applied nothing.
  if ((answer.code ?? answer.grpc_code) === 3) {
    return new CallFailure(
      new StoreMisconfiguredError(`${message}; etcd 3.4 or later is required`),
    );
  }
  // No leader, timed out, stopped: a proposal may still be applied.
  return unavailable(said, "unknown");
}

export function connectionFailure(cause: unknown, origin: string): CallFailure {
  const problem = serverProblem(cause);
  if (problem !== null) {
    return new CallFailure(new StoreMisconfiguredError(`${origin}: ${problem}`, cause));
  }
  const outcome = wasNotSent(cause) ? "none" : "unknown";
  return unavailable(connectionReason(origin, cause), outcome, "unreachable", cause);
}

export function unavailable(
  what: string,
  outcome: "none" | "unknown",
  reason: CallFailure["reason"] = "other",
  cause?: unknown,
): CallFailure {
  return new CallFailure(
    new StoreUnavailableError(`etcd failed: ${what}`, { outcome, cause }),
    reason,
  );
}

export function closed(): ClosedError {
  return new ClosedError("the etcd lease store");
}

/** Returns the error for the user. */
export function storeError(error: unknown): LeaseholdError {
  return error instanceof CallFailure ? error.error : asStoreError(error, "maybe");
}

/**
 * @throws LeaseholdError instead of the call's own errors
 */
export async function withStoreErrors<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw storeError(error);
  }
}

/**
 * @param applied overrides the outcome in the error, if more is known
 */
export function failedOutcome(error: unknown, applied?: Failed["applied"]): Failed {
  const known = storeError(error);
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

function parse(text: string): ErrorAnswer | null {
  try {
    const answer: unknown = JSON.parse(text);
    return typeof answer === "object" && answer !== null ? answer : null;
  } catch {
    return null;
  }
}
