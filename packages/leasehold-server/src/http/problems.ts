/** Every error response is problem+json (RFC 9457) with a stable code. */
import type { z } from "@hono/zod-openapi";
import { HTTPException } from "hono/http-exception";
import { InvalidOptionError, LeaseholdError } from "leasehold";
import { type AdminOutcome, type Failed, JsonTextError, type Refused } from "leasehold/internal";
import {
  PROBLEMS,
  type Problem,
  type ProblemCode,
  problemType,
  REQUEST_ID_HEADER,
} from "leasehold/internal/wire";

/** The problem of a request that asks for more of something than there is, or than its tenant may have. */
const CODE_OF = {
  capacity: "OVERLOADED",
  rate: "TOO_MANY_REQUESTS",
  in_flight: "TOO_MANY_REQUESTS",
  bytes: "TOO_MANY_REQUESTS",
  slots: "TOO_MANY_REQUESTS",
  ttls: "TOO_MANY_REQUESTS",
  waits: "LIMIT_REACHED",
  streams: "LIMIT_REACHED",
  quota: "LIMIT_REACHED",
} as const;

export type Scarce = keyof typeof CODE_OF;

interface ProblemInit {
  readonly extra?: Pick<
    Problem,
    "errors" | "reason" | "state" | "holder" | "grantId" | "remainingMs"
  >;
  readonly headers?: Readonly<Record<string, string>>;
  /** For the log only; never sent. */
  readonly cause?: unknown;
  /** What the request asked too much of. The metrics count it; it is never sent. */
  readonly scarce?: Scarce;
  /** The caller whose key has ended, for the audit; never sent. */
  readonly denied?: { readonly namespace: string; readonly actor: string };
}

/** Routes throw it; the app turns it into a response. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";

  constructor(
    readonly code: ProblemCode,
    detail: string,
    readonly init: ProblemInit = {},
  ) {
    super(detail, { cause: init.cause });
  }

  get status(): number {
    return PROBLEMS[this.code].status;
  }
}

/** When to retry, in seconds: databases fail over in about that time. */
const RETRY_AFTER = { "retry-after": "1" };

/** A response that any host can send. */
export interface Refusal {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

export function toResponse(problem: ProblemError, requestId: string): Response {
  const { status, headers, body } = refusalOf(problem, requestId);
  return new Response(body, { status, headers });
}

export function refusalOf(problem: ProblemError, requestId: string): Refusal {
  const { code, status, message, init } = problem;
  const body: Problem = {
    type: problemType(code),
    title: PROBLEMS[code].title,
    status,
    detail: message,
    code,
    requestId,
    ...init.extra,
  };
  const headers = {
    "content-type": "application/problem+json",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    [REQUEST_ID_HEADER]: requestId,
    ...(status === 503 ? RETRY_AFTER : {}),
    ...init.headers,
  };
  return { status, headers, body: JSON.stringify(body) };
}

/** Maps any error to a problem. */
export function problemOf(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  if (error instanceof JsonTextError) {
    const { path, problem, message } = error;
    if (path !== null) return invalid([{ path, problem }]);
    return new ProblemError("MALFORMED_JSON", `the body ${message}`);
  }
  if (error instanceof HTTPException) {
    // Any other body is read before the validators, which throw it.
    return error.status === 415
      ? notJson()
      : new ProblemError("MALFORMED_JSON", "the body is not JSON: it is empty");
  }
  if (error instanceof InvalidOptionError) {
    const problem = error.message.slice(error.path.length).trim();
    return invalid([{ path: error.path, problem }]);
  }
  if (error instanceof LeaseholdError) return storeProblem(error, error.outcome === "none");
  if (isHangUp(error)) return new ProblemError("MALFORMED_REQUEST", "the body ended too soon");
  return new ProblemError("INTERNAL", "an unexpected error; find it in the log by the request id", {
    cause: error,
  });
}

/**
 * The problem of a body that is of another type than JSON.
 * @param why `is not JSON: ...`, of a body that was read all the same
 */
export function notJson(why?: string): ProblemError {
  const detail = "send JSON, with content-type: application/json";
  return new ProblemError(
    "UNSUPPORTED_MEDIA_TYPE",
    why === undefined ? detail : `${detail} (the body ${why})`,
  );
}

/** Node's error for a body whose sender disconnected. The response is never received; the log has it. */
function isHangUp(error: unknown): boolean {
  return (
    error instanceof Error &&
    error.message === "aborted" &&
    "code" in error &&
    error.code === "ECONNRESET"
  );
}

/** Nothing was done; the caller should retry later. */
export function tooMany(scarce: Scarce, detail: string, waitMs: number): ProblemError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1_000));
  const headers = { "retry-after": `${seconds}` };
  return new ProblemError(CODE_OF[scarce], detail, { scarce, headers });
}

export function failed({ applied, error }: Failed): ProblemError {
  if (error instanceof InvalidOptionError) return problemOf(error);
  return storeProblem(error, applied === "no");
}

/** @param nothingDone false: the outcome is unknown */
export function storeProblem(error: LeaseholdError, nothingDone: boolean): ProblemError {
  const detail = `${error.code}: ${error.message}`;
  return new ProblemError(nothingDone ? "STORE_UNAVAILABLE" : "OUTCOME_UNKNOWN", detail, {
    cause: error,
  });
}

/**
 * The problem of a failed store for callers that need no key: what the store reported may name its address, its user or
 * its tables. The log has it.
 */
export function withoutReason(error: unknown): ProblemError {
  const problem = problemOf(error);
  if (problem.code !== "STORE_UNAVAILABLE") return problem;
  return new ProblemError(
    "STORE_UNAVAILABLE",
    "a store does not answer: the server's log has the reason, under this request id",
    { cause: problem.cause ?? problem },
  );
}

const REFUSED = {
  expired: {
    code: "LEASE_EXPIRED",
    detail:
      "this grant has ended: it expired, or its holder or an operator ended it; abandon the work",
  },
  taken: { code: "LEASE_TAKEN", detail: "a newer grant exists; abandon the work" },
  cancelled: { code: "TASK_CANCELLED", detail: "the task was cancelled; abandon the work" },
  finished: { code: "TASK_FINISHED", detail: "the task has ended; abandon the work" },
} as const;

export function unknownTask(): ProblemError {
  return new ProblemError("UNKNOWN_TASK", "no task has this id");
}

/** Why a holder was refused. */
export function refused({ reason }: Refused): ProblemError {
  if (reason === "unknown") return unknownTask();
  const { code, detail } = REFUSED[reason];
  return new ProblemError(code, detail, { extra: { reason } });
}

/** The problem of an operator action that a task's state does not allow. */
export function notAllowed(
  outcome: Exclude<AdminOutcome, { status: "ok" }>,
  operation: string,
): ProblemError {
  if (outcome.status === "failed") return failed(outcome);
  if (outcome.status === "unknown") return unknownTask();
  const { state } = outcome;
  return new ProblemError("STATE_CONFLICT", `cannot ${operation} a task that is ${state}`, {
    extra: { state },
  });
}

/** @param hadCredentials whether the request had any: by RFC 6750 only then the challenge names an error */
export function unauthenticated(
  detail: string,
  hadCredentials = true,
  init: Pick<ProblemInit, "denied"> = {},
): ProblemError {
  const challenge = 'Bearer realm="leasehold"';
  return new ProblemError("UNAUTHENTICATED", detail, {
    ...init,
    headers: {
      "www-authenticate": hadCredentials ? `${challenge}, error="invalid_token"` : challenge,
    },
  });
}

/** The most invalid fields that a problem names, and the longest path of one: a small body can have thousands. */
const [MOST_ERRORS, LONGEST_PATH] = [20, 256];

export function invalid(all: NonNullable<Problem["errors"]>): ProblemError {
  const errors = all.slice(0, MOST_ERRORS).map((error) => {
    const { path } = error;
    return path.length > LONGEST_PATH
      ? { ...error, path: `${path.slice(0, LONGEST_PATH)}…` }
      : error;
  });
  const [first] = errors;
  const detail = first ? `${first.path || "the body"}: ${first.problem}` : "the request is invalid";
  const more =
    all.length > MOST_ERRORS ? ` (errors has ${MOST_ERRORS} of ${all.length} invalid fields)` : "";
  return new ProblemError("INVALID_REQUEST", `${detail}${more}`, { extra: { errors } });
}

/** The invalid fields by a schema's issues. */
export function fieldErrors(
  issues: readonly z.core.$ZodIssue[],
): { path: string; problem: string }[] {
  return issues.flatMap((issue) => {
    if (issue.code === "unrecognized_keys") {
      return issue.keys.map((key) => ({
        path: [...issue.path, key].map(String).join("."),
        problem: "is not a known field",
      }));
    }
    if (issue.code === "invalid_union") {
      // The alternative that the caller probably meant: the first whose outer type fits, or the first.
      const fits = (branch: typeof issues) =>
        branch.some(({ path, code }) => path.length > 0 || code === "too_big");
      const meant = issue.errors.find(fits) ?? issue.errors[0] ?? [];
      return fieldErrors(
        meant.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] })),
      );
    }
    return [{ path: issue.path.map(String).join("."), problem: issue.message }];
  });
}
