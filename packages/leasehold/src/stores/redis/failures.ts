/** What a failure of Redis means to a caller: did the script take effect, is a retry of use? */
import {
  asStoreError,
  type Failed,
  LeaseholdError,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../core/index.js";

/** What users need; for messages and the README. */
const RIGHTS =
  "grant its user ~leasehold:* &leasehold:* +info +script|load +evalsha +eval +time +@hash +@sortedset +pttl +pexpireat +del +subscribe +unsubscribe +publish +ping (in a cluster +cluster|slots +asking), by ACL SETUSER";

/** Remedies of what does not go away by itself, by what the server's message has in it. */
const MISCONFIGURED: readonly (readonly [RegExp, string])[] = [
  [/^NOAUTH|^ERR AUTH /, "give a user and a password in the URL: redis://user:password@host"],
  [/^WRONGPASS|invalid password|invalid username/, "check the user and password of the URL"],
  // Within scripts the same is said in other words.
  [/^NOPERM|user executing the script can't|No permission/, RIGHTS],
  [/^ERR (DB index is out of range|invalid DB index)/, "correct the database's number in the URL"],
  [/^WRONGTYPE/, "somebody else has put another kind of value under that key: delete it"],
  [
    /^ERR SELECT is not allowed in cluster mode/,
    "a cluster has the database 0 alone: take the number out of the URL",
  ],
];

/** An answer of the server that refuses. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

/** A server that has become somebody's replica: the next connection may find the primary. */
export function isReadOnly(error: unknown): boolean {
  return isRefusal(error) && /\bREADONLY\b/.test(error.message);
}

/** ioredis says so of a command that it never wrote, because the connection was just ending. */
const UNWRITTEN = /^Stream isn't writeable/;

/** @param sent whether the command may have reached the server */
export function storeError(error: unknown, sent: boolean): LeaseholdError {
  if (error instanceof LeaseholdError) return error;
  if (isRefusal(error)) return refusal(error.message, withoutCommand(error));
  const message = error instanceof Error ? error.message || errorCode(error) : String(error);
  return new StoreUnavailableError(`Redis failed: ${message}`, {
    outcome: sent && !UNWRITTEN.test(message) ? "unknown" : "none",
    cause: error instanceof Error ? withoutCommand(error) : error,
  });
}

/** A server refuses before the first write: see scripts.ts. */
function refusal(message: string, cause?: Error): LeaseholdError {
  for (const [pattern, remedy] of MISCONFIGURED) {
    if (pattern.test(message)) {
      return new StoreMisconfiguredError(`Redis says: ${message}; ${remedy}`, cause);
    }
  }
  return new StoreUnavailableError(`Redis failed: ${message}`, { outcome: "none", cause });
}

/** ioredis hangs the command on its errors: a password among its arguments, or what others hold. */
function withoutCommand(error: Error): Error {
  if ("command" in error) delete error.command;
  return error;
}

/** Some errors of sockets have a code only. */
function errorCode(error: Error): string {
  return "code" in error ? String(error.code) : error.name;
}

/** The outcome of each request of a batch whose script failed. */
export function failedOutcome(error: unknown): Failed {
  const cause = asStoreError(error, "maybe");
  return {
    status: "failed",
    applied: cause.outcome === "none" ? "no" : "maybe",
    retryable: cause.retryable,
    error: cause,
  };
}

/** The outcome of one request of a script that decided the others. */
export function refusedOutcome(message: string): Failed {
  return failedOutcome(refusal(message));
}
