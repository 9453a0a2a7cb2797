/** What a failure of etcd means to a caller: did the request take effect, is a retry of use? */
import {
  asStoreError,
  ClosedError,
  type Failed,
  type LeaseholdError,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../core/index.js";
import type { ErrorAnswer } from "./connection-api.js";

/** Why a call failed, beside what users are told. */
export class CallFailure extends Error {
  constructor(
    readonly error: LeaseholdError,
    /**
     * `unauthenticated`: the token has ended; `noLease`: an engine lease has; `compacted`: the
     * revision that was asked for is gone.
     */
    readonly reason: "unauthenticated" | "noLease" | "compacted" | "other" = "other",
  ) {
    super(error.message);
  }
}

/** Remedies of what does not go away by itself, by a part of what etcd says. Nothing was done. */
const MISCONFIGURED: readonly (readonly [text: string, remedy: string])[] = [
  ["invalid user ID or password", "check the user and password of the URL"],
  ["authentication is not enabled", "remove user and password from the URL, or enable auth"],
  ["user name is empty", "put user:password@ into the URL"],
  ["permission denied", "grant the user's role readwrite below the path of the URL"],
  ["too many operations in txn", "start etcd with --max-txn-ops=128, its default, or more"],
  ["request is too large", "start etcd with --max-request-bytes=1572864, its default, or more"],
  ["database space exceeded", "compact and defragment etcd, then `etcdctl alarm disarm`"],
];

/** What etcd refuses before anything has happened, and takes again later. */
const REFUSED = ["too many requests", "not capable", "rate limit"];
const UNAUTHENTICATED = ["invalid auth token", "revision of auth store is old"];

/** @param status of HTTP @param text the body */
export function answeredFailure(status: number, text: string, origin: string): CallFailure {
  const answer = parse(text);
  if (!answer) {
    if (status >= 500) return unavailable(`${origin} answered ${status}`, "unknown");
    return new CallFailure(
      new StoreMisconfiguredError(
        `${origin} answered ${status}: is this the client URL of an etcd 3.4 or later, with its gRPC gateway on?`,
      ),
    );
  }
  return saidFailure(answer);
}

/** What etcd itself says, as an answer or in a stream. */
export function saidFailure(answer: ErrorAnswer): CallFailure {
  const said = answer.message ?? answer.error ?? "an error without a text";
  const says = (texts: readonly string[]) => texts.some((text) => said.includes(text));
  const message = `etcd says: ${said}`;
  const remedy = MISCONFIGURED.find(([text]) => said.includes(text))?.[1];
  if (remedy) return new CallFailure(new StoreMisconfiguredError(`${message}; ${remedy}`));
  if (says(UNAUTHENTICATED)) return unavailable(said, "none", "unauthenticated");
  if (says(["requested lease not found"])) return unavailable(said, "none", "noLease");
  if (says(["required revision has been compacted"])) return unavailable(said, "none", "compacted");
  if (says(REFUSED)) return unavailable(said, "none");
  // 3 is "invalid argument": a request that etcd does not understand, and that nothing came of.
  if ((answer.code ?? answer.grpc_code) === 3) {
    return new CallFailure(new StoreMisconfiguredError(`${message}; etcd 3.4 or later is needed`));
  }
  // No leader, timed out, stopped: a proposal may be on its way.
  return unavailable(said, "unknown");
}

/** Node's codes for what never reached the server. Browsers do not tell; there it may have. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);

export function connectionFailure(cause: unknown, origin: string): CallFailure {
  const inner = cause instanceof Error ? cause.cause : undefined;
  const code = inner instanceof Error && "code" in inner ? String(inner.code) : "";
  const message = cause instanceof Error ? cause.message : String(cause);
  if (/CERT|_TLS_|SELF_SIGNED|SIGNATURE|ALTNAME/.test(code)) {
    const text = `${origin}: its certificate is not accepted (${code}); name its authority in NODE_EXTRA_CA_CERTS`;
    return new CallFailure(new StoreMisconfiguredError(text, cause));
  }
  const connecting = inner instanceof Error && "syscall" in inner && inner.syscall === "connect";
  const outcome = connecting || NOT_SENT.has(code) ? "none" : "unknown";
  return unavailable(
    `${origin}: ${code ? `${message} (${code})` : message}`,
    outcome,
    "other",
    cause,
  );
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

/** What users are told. */
export function storeError(error: unknown): LeaseholdError {
  return error instanceof CallFailure ? error.error : asStoreError(error, "maybe");
}

/** @throws LeaseholdError for whatever the call throws */
export async function withStoreErrors<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw storeError(error);
  }
}

/** @param applied what is known better than the error says */
export function failedOutcome(error: unknown, applied?: Failed["applied"]): Failed {
  const known = storeError(error);
  const outcome = applied === undefined ? known.outcome : applied === "no" ? "none" : "unknown";
  const told =
    known.outcome === outcome || !known.retryable
      ? known
      : new StoreUnavailableError(known.message, { outcome, cause: known });
  return {
    status: "failed",
    applied: outcome === "none" ? "no" : "maybe",
    retryable: told.retryable,
    error: told,
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
