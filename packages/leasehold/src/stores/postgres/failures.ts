/** Maps failures of PostgreSQL to outcomes: did the statement take effect, and can a retry help? */

import { isError, reasonOf } from "../../env/index.js";
import {
  ClosedError,
  failedOutcome,
  LeaseholdError,
  refusedRequest,
  StoreMisconfiguredError,
  StoreUnavailableError,
  sqlErrorOf,
} from "../../lease/index.js";
import { serverProblem } from "../../store-kit/connecting.js";

export { failedOutcome };

/** An error response of the server, as pg and PGlite report it. */
interface ServerError extends Error {
  /** SQLSTATE, five characters. */
  readonly code: string;
}

function isServerError(error: unknown): error is ServerError {
  // The severity distinguishes SQLSTATEs from Node's codes, some of which also have five letters
  // (EPIPE).
  // The text may be translated, so only its presence counts.
  return isError(error) && "severity" in error && "code" in error;
}

/** SQLSTATEs that end the session: 08 connection, 57P shutdown, 25P03 and 25P04 timeouts, XX internal. */
const SESSION_ENDS = /^(08|57P|25P0[34]|XX)/;
/** The server is a standby or a demoted primary; the next connection may find the new primary. */
const READ_ONLY = "25006";

/** Reports whether the connection that reported this error must not be used again. */
export function breaksConnection(error: unknown): boolean {
  return !isServerError(error) || SESSION_ENDS.test(error.code) || error.code === READ_ONLY;
}

/** Also of a client that was open while a newer release changed the tables. */
const OTHER_TABLES =
  "the tables are not those of this release: run `leasehold migrate`, or update leasehold if a newer release has " +
  "changed them";
/** Remedies for permanent failures, by SQLSTATE. */
const MISCONFIGURED: Readonly<Record<string, string>> = {
  "28P01": "check the user and password of the URL",
  "28000":
    "name a user of the server in the URL, as in postgres://user@host/database, and allow it in the server's pg_hba.conf",
  "3D000": "create the database, or correct its name in the URL",
  "42501": "grant the user the right, or run `leasehold migrate` as the owner of the schema",
  "3F000": "run `leasehold migrate`",
  "42P01": OTHER_TABLES,
  "42703": OTHER_TABLES,
};

/** The same by the message: of PgBouncer, which has one SQLSTATE for all, and of pg. */
const MISCONFIGURED_SAID: readonly (readonly [RegExp, string])[] = [
  [
    /^unsupported startup parameter/,
    "remove it from the URL, or add it to ignore_startup_parameters of PgBouncer",
  ],
  [
    /^(no such (database|user)\b|bouncer config error)/,
    "correct the database and the user of the URL, or add them to the settings of PgBouncer",
  ],
  [/^(SASL authentication|auth|login) failed/, "check the user and password of the URL"],
  [/client password must be a/, "put the password into the URL, or set PGPASSWORD"],
  [/^The server does not support SSL connections$/, "remove sslmode from the URL"],
];
const TOO_MANY_CONNECTIONS = "53300";
const CONNECTIONS_NEEDED =
  "each client needs 3 connections and uses up to 15: raise CONNECTION LIMIT of the role or database, or max_connections, or connect through PgBouncer";
/** What to change if it happens again and again, by the message of the server or of pg. */
const LIMITED_SAID: readonly (readonly [RegExp, string])[] = [
  [
    /statement timeout/,
    "raise ?statement_timeout of the URL, or statement_timeout of the role or the database",
  ],
  [/lock timeout/, "raise ?lock_timeout of the URL, or lock_timeout of the role or the database"],
  [/^Query read timeout/, "raise ?query_timeout of the URL"],
  [
    /before secure TLS connection was established/,
    "if the URL has ?sslnegotiation=direct, which needs PostgreSQL 17, remove it",
  ],
];
const AUTHORITY = {
  authority:
    "name the file of its authority by ?sslrootcert= of the URL (a file that is named is of another one), or set NODE_EXTRA_CA_CERTS to it, which counts without ?sslrootcert= alone",
};
/**
 * SQLSTATEs by which the server refuses the values of a statement: 22 data, 23 constraints, 54 sizes. A unique violation
 * is none: another statement was faster, and the statement can be repeated.
 */
const REFUSED_VALUE = /^(22|23(?!505)|54)/;

/** Removes what the server did not report: Node would print a dozen such fields, each as `undefined`. */
function withoutUnreported(error: unknown): void {
  if (!isServerError(error)) return;
  for (const [name, value] of Object.entries(error)) {
    if (value === undefined) Reflect.deleteProperty(error, name);
  }
}

/** @param sent whether the statement may have reached the server */
export function storeError(error: unknown, sent: boolean): LeaseholdError {
  if (error instanceof LeaseholdError) return error;
  withoutUnreported(error);
  const reported = sqlErrorOf(error);
  if (reported && reported.code in MISCONFIGURED) {
    const remedy = MISCONFIGURED[reported.code];
    return new StoreMisconfiguredError(
      `PostgreSQL reported: ${reported.message}; ${remedy}`,
      error,
    );
  }
  const message = reported?.message ?? reasonOf(error);
  const said = MISCONFIGURED_SAID.find(([pattern]) => pattern.test(message))?.[1];
  if (said !== undefined)
    return new StoreMisconfiguredError(`PostgreSQL: ${message}; ${said}`, error);
  if (reported && REFUSED_VALUE.test(reported.code)) {
    return refusedRequest(`PostgreSQL reported: ${reported.message} (${reported.code})`);
  }
  const problem = serverProblem(error, AUTHORITY);
  if (problem !== null) {
    return new StoreMisconfiguredError(`PostgreSQL: ${message}: ${problem}`, error);
  }
  if (message === "Cannot use a pool after calling end on the pool") {
    return new ClosedError("the PostgreSQL store");
  }
  // The server rolls back a rejected statement; a statement whose session ended may be committed.
  const unknown = sent && (!reported || SESSION_ENDS.test(reported.code));
  const known = reported?.code === TOO_MANY_CONNECTIONS ? CONNECTIONS_NEEDED : undefined;
  const remedy = known ?? LIMITED_SAID.find(([pattern]) => pattern.test(message))?.[1];
  const limit = remedy === undefined ? "" : `; ${remedy}`;
  return new StoreUnavailableError(`PostgreSQL failed: ${message}${limit}`, {
    outcome: unknown ? "unknown" : "none",
    cause: error,
  });
}

/** What a server says of the parameters of the URL before any statement: classes 22 and 42. */
const WRONG_PARAMETER = /^(22|42)/;

/** As `storeError`, for a failure to connect: it is of no statement, so it is of the parameters of the URL. */
export function connectError(error: unknown): LeaseholdError {
  const known = storeError(error, false);
  const reported = sqlErrorOf(error);
  if (known === error || known instanceof StoreMisconfiguredError) return known;
  if (!reported || !WRONG_PARAMETER.test(reported.code)) return known;
  return new StoreMisconfiguredError(
    `PostgreSQL reported: ${reported.message}; correct ?options= and the other parameters of the URL`,
    error,
  );
}

/** The transaction may not write. */
export function isReadOnly(error: unknown): boolean {
  return isServerError(error) && error.code === READ_ONLY;
}

/** The server does not know the prepared statement's name, or already has one of that name. */
export function isNotPrepared(error: unknown): boolean {
  return isServerError(error) && (error.code === "26000" || error.code === "42P05");
}

/** The server, or the role or database, has no connection left. */
export function isTooMany(error: unknown): boolean {
  return isServerError(error) && error.code === TOO_MANY_CONNECTIONS;
}

/** Reports whether a concurrent statement inserted the same key. */
export function isUniqueViolation(error: unknown): boolean {
  const cause = error instanceof LeaseholdError ? error.cause : error;
  return isServerError(cause) && cause.code === "23505";
}
