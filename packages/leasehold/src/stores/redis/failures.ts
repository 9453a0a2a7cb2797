/** Maps failures of Redis to outcomes: did the script take effect, and can a retry help? */

import { isError, propertyOf, reasonOf } from "../../env/index.js";
import {
  type Failed,
  failedOutcome,
  LeaseholdError,
  refusedRequest,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../lease/index.js";
import { serverProblem, TLS_REMEDIES } from "../../store-kit/connecting.js";

export { failedOutcome };

/** The permissions of a user; for error messages and the README. */
const RIGHTS =
  "grant its user ~leasehold:* &leasehold:* +info +script|load +evalsha +eval +time +@hash +@sortedset +pttl +pexpireat +del +subscribe +unsubscribe +publish +ping (in a cluster +cluster|slots +asking), by ACL SETUSER";

/** Remedies for permanent failures, by a pattern in the server's message. */
const MISCONFIGURED: readonly (readonly [RegExp, string])[] = [
  [/^NOAUTH|^ERR AUTH /, "put the user and the password into the URL: redis://user:password@host"],
  [/^WRONGPASS|invalid password|invalid username/, "check the user and password of the URL"],
  // Scripts report the same failure in other words.
  [/^NOPERM|user executing the script can't|No permission/, RIGHTS],
  [/^ERR (DB index is out of range|invalid DB index)/, "correct the database's number in the URL"],
  [/^WRONGTYPE/, "another client stored a value of another type under that key: delete it"],
  [
    /^ERR SELECT is not allowed in cluster mode/,
    "a cluster has only database 0: remove the number from the URL",
  ],
  [/^ERR This instance has cluster support disabled/, "it is no cluster: name one server"],
];

/** The same for what Sentinels say, which ioredis quotes. */
const SENTINEL_SAYS = /^All sentinels are unreachable\b.*?Last error: (.*)$/s;
const MISCONFIGURED_SENTINEL: readonly (readonly [RegExp, string])[] = [
  [
    /^ERR unknown command/,
    "these are servers of Redis and no Sentinels: write redis://host:port, or the ports of the Sentinels (26379)",
  ],
  [/No such master with that name/, "check the name of the primary in the path of the URL"],
  [/^NOAUTH/, "put ?sentinelPassword= into the URL, and ?sentinelUsername= if they have users"],
  [/^WRONGPASS|invalid password/, "check ?sentinelUsername= and ?sentinelPassword= of the URL"],
  [/^NOPERM/, "grant their user +sentinel|get-master-addr-by-name +sentinel|sentinels"],
];

/** Reports whether the error is an error reply of the server. */
export function isRefusal(error: unknown): error is Error {
  return isError(error) && propertyOf(error, "name") === "ReplyError";
}

/**
 * Replies that tell what the connection leads to: a server that takes no writes (READONLY, MASTERDOWN, NOREPLICAS) or
 * none yet (LOADING), or a session without its user (NOAUTH). Where the address or the Sentinels lead now may differ.
 */
const SAYS_CONNECTION =
  /\b(READONLY|MASTERDOWN|NOREPLICAS|LOADING|NOAUTH|unauthenticated|stale replica)\b/;

/** Reports whether the connection that returned this reply must not be used again. */
export function breaksConnection(message: string): boolean {
  return SAYS_CONNECTION.test(message);
}

/** The error message of a script for one request of its batch, or null. Scripts of the formats catch it as a text. */
export function failureIn(reply: unknown): string | null {
  if (reply instanceof Error) return reply.message;
  return Array.isArray(reply) && reply[0] === "failed" ? String(reply[1]) : null;
}

/**
 * A server that asks for a certificate of the client resets the connection of one that has none, or one that it does not
 * trust; why it does so may arrive too late.
 */
export function withoutCertificate(error: unknown): unknown {
  if (!(error instanceof StoreUnavailableError) || !error.message.includes("ECONNRESET"))
    return error;
  const { message, outcome } = error;
  const remedy = `if it asks for a certificate of the client, ${TLS_REMEDIES.client}`;
  return new StoreUnavailableError(`${message}; ${remedy}`, { outcome, cause: error });
}

/** ioredis reports this for a command that it never wrote, because the connection was closing. */
const UNWRITTEN = /^Stream isn't writeable/;

/** What ioredis says of an answer that is not in the protocol of Redis, such as that of a server of HTTP. */
const NOT_REDIS = /^(Protocol error, got |Unknown RESP type )/;

/** @param sent whether the command may have reached the server */
export function storeError(error: unknown, sent: boolean): LeaseholdError {
  if (error instanceof LeaseholdError) return error;
  if (isRefusal(error)) return refusal(error.message, sent, withoutCommand(error));
  const message = reasonOf(error);
  const problem = serverProblem(error);
  if (problem !== null) return new StoreMisconfiguredError(`Redis: ${message}: ${problem}`, error);
  if (NOT_REDIS.test(message)) {
    return new StoreMisconfiguredError(
      `Redis: ${message}: this is no server of Redis; check the host and the port of the URL`,
      error,
    );
  }
  const said = SENTINEL_SAYS.exec(message)?.[1] ?? "";
  const remedy = MISCONFIGURED_SENTINEL.find(([pattern]) => pattern.test(said))?.[1];
  if (remedy !== undefined) {
    return new StoreMisconfiguredError(`the Sentinels of Redis reported: ${said}; ${remedy}`);
  }
  return new StoreUnavailableError(`Redis failed: ${message}`, {
    outcome: sent && !UNWRITTEN.test(message) ? "unknown" : "none",
    cause: isError(error) ? withoutCommand(error) : error,
  });
}

/** A value, or the arguments of a script, are more than the server takes. */
const TOO_LARGE = /exceeds maximum allowed size|invalid (multi)?bulk length/;

/** The server rejects a script before its first write: see scripts.ts. */
function refusal(message: string, sent: boolean, cause?: Error): LeaseholdError {
  for (const [pattern, remedy] of MISCONFIGURED) {
    // The next connection authenticates again.
    if (pattern.test(message) && !(sent && breaksConnection(message))) {
      return new StoreMisconfiguredError(`Redis reported: ${message}; ${remedy}`, cause);
    }
  }
  if (TOO_LARGE.test(message)) return refusedRequest(`Redis reported: ${message}`);
  return new StoreUnavailableError(`Redis failed: ${message}`, { outcome: "none", cause });
}

/** ioredis attaches the command to its errors. Its arguments may contain a password or lease data. */
function withoutCommand(error: Error): Error {
  if ("command" in error) delete error.command;
  return error;
}

/** Returns the outcome of one failed request of an otherwise successful script. */
export function refusedOutcome(message: string): Failed {
  return failedOutcome(refusal(message, true));
}
