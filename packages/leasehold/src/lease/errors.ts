import { isInstance } from "../env/index.js";
import { PAUSED_HOLDER } from "./paused-holder.js";

/**
 * The errors of the public API. Losing a race is a value, not an error. An error means that an outcome is unknown,
 * that the caller made a mistake, or that the right to continue has ended. Each code has its section in docs/errors.md.
 */
export type ErrorCode =
  | "LEASE_LOST"
  | "LEASE_UNAVAILABLE"
  | "STORE_UNAVAILABLE"
  | "STORE_MISCONFIGURED"
  | "INVALID_OPTION"
  | "STALE_TOKEN"
  | "NO_TOKEN"
  | "NOT_LEADER"
  | "STILL_RUNNING"
  | "TASK_CONFLICT"
  | "TASK_FAILED"
  | "ONCE_DONE"
  | "ONCE_FAILED"
  | "NESTED_RUN"
  | "TIMED_OUT"
  | "TASK_TIMEOUT"
  | "WORKER_STUCK"
  | "CLOSED";

/** Why a holder must stop. */
export type LostReason =
  /** It expired before a renewal was confirmed. */
  | "expired"
  /** The lease id is not that of the current grant: the resource was granted again, or never under this id. */
  | "taken"
  /** An operator ended it. */
  | "revoked"
  /** The store no longer knows the grant. */
  | "gone"
  /** The store's answer contradicts what it said before. */
  | "inconsistent";

/** What a {@link LeaseholdError} knows besides its code and message; see its properties. */
export interface ErrorInit {
  retryable: boolean;
  outcome: "none" | "unknown";
  cause?: unknown;
}

/**
 * Base class of all errors of this package. Distinguish them by `code`, which never changes.
 * @example
 * ```ts
 * import { connect, LeaseholdError } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * await leasehold.acquire("billing", { ttlMs: -1 }).catch((error) => {
 *   if (!(error instanceof LeaseholdError)) throw error;
 *   console.log(error.code, error.retryable, error.docs, error.toJSON());
 * });
 * await leasehold.close();
 * ```
 */
export class LeaseholdError extends Error {
  /** What went wrong; each has its section in docs/errors.md. */
  readonly code: ErrorCode;
  /** Whether the same call may succeed later without any change. */
  readonly retryable: boolean;
  /** `none`: the call has changed nothing. `unknown`: it may have taken effect although it failed. */
  readonly outcome: "none" | "unknown";
  /** Where the error and its remedy are described: a file of the installed package, and its heading. */
  readonly docs: string;

  constructor(code: ErrorCode, message: string, init: ErrorInit) {
    super(message, init.cause === undefined ? undefined : { cause: init.cause });
    this.name = new.target.name;
    this.code = code;
    this.retryable = init.retryable;
    this.outcome = init.outcome;
    this.docs = `node_modules/leasehold/docs/errors.md#${code.toLowerCase()}`;
  }

  /**
   * Code can throw anything, and for a revoked proxy `instanceof` throws itself, which would fail what has caught it.
   * @internal
   */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return isInstance(value, this);
  }

  /**
   * For logs in JSON, where an Error is `{}` by default: the message and what the error knows, without
   * its cause, which comes from other code and may contain anything.
   */
  toJSON(): object {
    const { name, code, message, cause, ...own } = this;
    return { name, code, message, ...own };
  }
}

const LOST_BECAUSE: Readonly<Record<LostReason, string>> = {
  expired: "it expired before a renewal was confirmed",
  taken: "the resource was granted again, or never under this lease id",
  revoked: "an operator revoked it",
  gone: "the store no longer knows it",
  inconsistent: "the store's answer contradicts an earlier one",
};

/**
 * The lease ended before its work did. It is the reason of `lease.signal`, and `leasehold.run` rejects with it. Stop
 * the work; acquire again if it is still wanted. `reason` says why, `resource` what, `cause` why renewals failed, or what the
 * work of `run` threw.
 * @example
 * ```ts
 * import { connect, LeaseLostError } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const running = leasehold.run("billing", () => leasehold.revoke("billing"));
 * await running.then(console.log, (error) => {
 *   if (!(error instanceof LeaseLostError)) throw error;
 *   console.log("stopped", error.resource, error.reason);
 * });
 * await leasehold.close();
 * ```
 */
export class LeaseLostError extends LeaseholdError {
  constructor(
    readonly resource: string,
    readonly reason: LostReason,
    cause?: LeaseholdError,
  ) {
    const message = `the lease on "${resource}" is lost (${reason}): ${LOST_BECAUSE[reason]}`;
    const init = { retryable: true, outcome: "unknown", cause } as const;
    super("LEASE_LOST", `${message}; stop, and acquire again if the work is still wanted`, init);
  }
}

/**
 * Another holder kept the resource for the whole of `waitMs`. `holder` names it, and `waitedMs` is that time in
 * milliseconds. Nothing has changed: retry later, or raise `waitMs`.
 * @example
 * ```ts
 * import { connect, LeaseUnavailableError } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const lease = await leasehold.acquire("billing");
 * await leasehold.acquire("billing", { waitMs: 0 }).catch((error) => {
 *   if (!(error instanceof LeaseUnavailableError)) throw error;
 *   console.log("held by", error.holder, "after", error.waitedMs, "ms");
 * });
 * await lease.release();
 * await leasehold.close();
 * ```
 */
export class LeaseUnavailableError extends LeaseholdError {
  constructor(
    readonly resource: string,
    readonly waitedMs: number,
    readonly holder: string,
    pausedBy = "an operator",
  ) {
    const why = holder === PAUSED_HOLDER ? `paused by ${pausedBy}` : `held by ${holder}`;
    super(
      "LEASE_UNAVAILABLE",
      `"${resource}" is ${why}; gave up after waitMs = ${Math.round(waitedMs)}: retry later, or raise waitMs`,
      { retryable: true, outcome: "none" },
    );
  }
}

/** No server listens at the address or the socket, or no address has the name. */
const UNREACHED = /\b(?:ECONNREFUSED|ENOTFOUND|connect ENOENT)\b/;
/** At the end of the message: what to do. */
const ADVICE = {
  unreached: "; nothing has changed: check that a server runs there, or try again",
  none: "; nothing has changed: try again",
  unknown: "; the call may have taken effect: check that, or repeat it",
  limit: "; nothing has changed",
} as const;

/**
 * The store did not answer, or not in time, or a server refused the call by a limit (`refusedBy`). With
 * `outcome: "unknown"` the call may have taken effect: read the lease or the task before you retry.
 * @example
 * ```ts
 * import { connect, StoreUnavailableError } from "leasehold";
 *
 * await connect("http://leasehold.invalid", { connectTimeoutMs: 200 }).catch((error) => {
 *   if (!(error instanceof StoreUnavailableError)) throw error;
 *   console.log("retry in", error.retryAfterMs ?? 1_000, "ms; changes:", error.outcome);
 * });
 * ```
 */
export class StoreUnavailableError extends LeaseholdError {
  /** The shortest delay before a retry, in milliseconds, if the store named one. */
  declare readonly retryAfterMs?: number;
  /**
   * A server answered, and refused: `limit`, the tenant has as much as it may have; `rate`, this tenant asks too often;
   * `load`, the server has too much to do.
   */
  declare readonly refusedBy?: "limit" | "rate" | "load";

  constructor(
    message: string,
    init: { outcome: "none" | "unknown"; cause?: unknown } & Pick<
      StoreUnavailableError,
      "retryAfterMs" | "refusedBy"
    >,
  ) {
    // A message that a server or a caller passes on already contains advice.
    const problem = Object.values(ADVICE).reduce((text, one) => text.replaceAll(one, ""), message);
    const known = init.outcome === "none" && UNREACHED.test(problem) ? "unreached" : init.outcome;
    const advice = ADVICE[init.refusedBy === "limit" ? "limit" : known];
    super("STORE_UNAVAILABLE", problem + advice, { retryable: true, ...init });
    if (init.retryAfterMs !== undefined) this.retryAfterMs = init.retryAfterMs;
    if (init.refusedBy !== undefined) this.refusedBy = init.refusedBy;
  }
}

/**
 * The store answered, but does not work as it is set up: a wrong URL, a missing driver or missing permissions. A retry
 * does not help; the message says what to correct.
 * @example
 * ```ts
 * import { connect, StoreMisconfiguredError } from "leasehold";
 *
 * await connect("kubernetes:jobs?kubeconfig=/no/such/file").catch((error) => {
 *   if (!(error instanceof StoreMisconfiguredError)) throw error;
 *   console.log(error.message);
 * });
 * ```
 */
export class StoreMisconfiguredError extends LeaseholdError {
  constructor(message: string, cause?: unknown) {
    super("STORE_MISCONFIGURED", message, { retryable: false, outcome: "none", cause });
  }
}

/**
 * An argument is out of its range, of the wrong type or unknown. `path` names it, such as `ttlMs` or `data.width`.
 * @example
 * ```ts
 * import { connect, InvalidOptionError } from "leasehold";
 *
 * await connect("memory:", { namespace: "" }).catch((error) => {
 *   if (!(error instanceof InvalidOptionError)) throw error;
 *   console.log(error.path, error.message);
 * });
 * ```
 */
export class InvalidOptionError extends LeaseholdError {
  constructor(
    readonly path: string,
    problem: string,
  ) {
    super("INVALID_OPTION", `${path} ${problem}`, { retryable: false, outcome: "none" });
  }
}

/**
 * A guard has already admitted a newer token, so a newer holder has written. Roll back and drop the work: no later
 * attempt with this `token` succeeds.
 * @example
 * ```ts
 * import { StaleTokenError } from "leasehold";
 * import { memoryGuard } from "leasehold/fence";
 *
 * const guard = memoryGuard();
 * await guard.guard("billing", 11, () => "written");
 * await guard.guard("billing", 10, () => "never called").catch((error) => {
 *   if (!(error instanceof StaleTokenError)) throw error;
 *   console.log("roll back:", error.token, "is older than", error.lastToken);
 * });
 * ```
 */
export class StaleTokenError extends LeaseholdError {
  constructor(
    readonly resource: string,
    readonly token: number,
    readonly lastToken: number,
  ) {
    super(
      "STALE_TOKEN",
      `token ${token} for "${resource}" is older than ${lastToken}, which has passed: roll back, and drop this work`,
      { retryable: false, outcome: "none" },
    );
  }
}

/**
 * This node does not lead `election`, so the work did not start. Send it to the leader, or drop it.
 * @example
 * ```ts
 * import { connect, NotLeaderError } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const elector = leasehold.elector("cluster");
 * await elector.runIfLeader(() => "never called").catch((error) => {
 *   if (!(error instanceof NotLeaderError)) throw error;
 *   console.log("send the request to the leader of", error.election);
 * });
 * await leasehold.close();
 * ```
 */
export class NotLeaderError extends LeaseholdError {
  constructor(readonly election: string) {
    super(
      "NOT_LEADER",
      `this node does not lead "${election}": send the work to the leader, or drop it`,
      { retryable: true, outcome: "none" },
    );
  }
}

/**
 * The lease on `resource` has no fencing token: its store uses a format without tokens, or there is no lease.
 * @example
 * ```ts
 * import { connect, NoTokenError } from "leasehold";
 *
 * const leasehold = await connect("redis://localhost/?format=redlock", { unfenced: true });
 * await leasehold.elector("cluster").lead((term) => {
 *   try {
 *     console.log(term.token);
 *   } catch (error) {
 *     if (!(error instanceof NoTokenError)) throw error;
 *     console.log("no fence protects", error.resource);
 *   }
 * });
 * ```
 */
export class NoTokenError extends LeaseholdError {
  constructor(
    readonly resource: string,
    because = "its store keeps it in the format of another package",
    remedy = "remove ?format= from the URL to have tokens, or work without a fence",
  ) {
    super(
      "NO_TOKEN",
      `the lease on "${resource}" has no fencing token, because ${because}: ${remedy}`,
      { retryable: false, outcome: "none" },
    );
  }
}

/**
 * The client, singleton, worker or member is closed. It is also the reason of `lease.signal` when the client closes
 * while the lease is held.
 * @example
 * ```ts
 * import { ClosedError, connect } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * await leasehold.close();
 * await leasehold.acquire("billing").catch((error) => {
 *   if (!(error instanceof ClosedError)) throw error;
 *   console.log("this program is ending");
 * });
 * ```
 */
export class ClosedError extends LeaseholdError {
  constructor(what = "this client", remedy = "open another one, unless this program is ending") {
    super("CLOSED", `${what} is closed: ${remedy}`, { retryable: false, outcome: "none" });
  }
}
