/** Maps failures of etcd to outcomes: did the request take effect, and can a retry help? */

import {
  asStoreError,
  ClosedError,
  type Failed,
  type LeaseholdError,
  failedOutcome as outcomeOf,
  refusedRequest,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../lease/index.js";
import { OtherServerError } from "../../store-kit/opening-server.js";

/** Why a call failed, besides the error for users. */
export class CallFailure extends Error {
  constructor(
    readonly error: LeaseholdError,
    /**
     * `unauthenticated`: the token expired; `noLease`: an engine lease expired; `compacted`: the
     * requested revision is gone; `unreachable`: the connection failed.
     */
    readonly reason:
      | "unauthenticated"
      | "noLease"
      | "compacted"
      | "unreachable"
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
  ["too many operations in txn", "start etcd with --max-txn-ops=128, its default, or more"],
  ["database space exceeded", "compact and defragment etcd, then `etcdctl alarm disarm`"],
];

/** The same for a request that etcd does not take. */
const TOO_LARGE =
  "start etcd with --max-request-bytes=1572864, its default, or more, or use smaller metadata";

/** Messages of requests that etcd rejected before doing anything; a retry may succeed. */
const REFUSED = ["too many requests", "not capable", "rate limit"];
const UNAUTHENTICATED = ["invalid auth token", "revision of auth store is old"];

/** What a server answers that is no etcd, or none for clients. */
export function noEtcd(origin: string, said: string): CallFailure {
  return new CallFailure(
    new OtherServerError(
      `${origin} ${said}: is this the client URL of an etcd 3.4 or later, reached without a proxy for HTTP/1?`,
    ),
  );
}

/**
 * Maps an error reported by etcd, in a response or in a stream.
 * @param code of gRPC; a canceled watch has none
 */
export function saidFailure(said: string, code?: number): CallFailure {
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
  if (code === 3) {
    return new CallFailure(
      new StoreMisconfiguredError(`${message}; etcd 3.4 or later is required`),
    );
  }
  // No leader, timed out, stopped: a proposal may still be applied.
  return unavailable(said, "unknown");
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
  return outcomeOf(storeError(error), applied);
}
