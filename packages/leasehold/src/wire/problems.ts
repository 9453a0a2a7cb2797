import type { TaskState } from "../tasks/index.js";

/** Everything that can go wrong, by the code that stands in the answer. Codes never change. */
export const PROBLEMS = {
  MALFORMED_JSON: { status: 400, title: "The body is not JSON" },
  MALFORMED_REQUEST: { status: 400, title: "The request's target or Host header is malformed" },
  UNAUTHENTICATED: { status: 401, title: "A valid API key is needed" },
  FORBIDDEN: { status: 403, title: "This caller may not do that" },
  UNKNOWN_ROUTE: { status: 404, title: "There is no such route" },
  UNKNOWN_TASK: { status: 404, title: "There is no such task" },
  METHOD_NOT_ALLOWED: { status: 405, title: "The route does not know this method" },
  UNKNOWN_LEASE: { status: 404, title: "There is no such lease" },
  UNKNOWN_ONCE: { status: 404, title: "There is no record of once under this key" },
  UNKNOWN_SCHEDULE: { status: 404, title: "There is no such schedule" },
  UNKNOWN_KEY: { status: 404, title: "There is no such API key" },
  KEY_ROTATED: { status: 409, title: "The API key has a successor already" },
  LEASE_HELD: { status: 409, title: "Another holder has the lease" },
  LEASE_ENDED: { status: 409, title: "The grant of this leaseId has ended" },
  LEASE_EXPIRED: { status: 409, title: "The lease has expired" },
  LEASE_TAKEN: { status: 409, title: "The resource or task has been granted anew" },
  LEASE_REVOKED: { status: 409, title: "An operator has ended the lease" },
  LEASE_RELEASED: { status: 409, title: "The holder has released the lease" },
  LEASE_ID_REQUIRED: { status: 409, title: "Only its leaseId speaks for this grant" },
  TASK_CANCELLED: { status: 409, title: "The task was cancelled" },
  TASK_FINISHED: { status: 409, title: "The task has ended already" },
  TASK_CONFLICT: { status: 409, title: "A task with this id and other content exists" },
  STATE_CONFLICT: { status: 409, title: "The task's state does not allow this" },
  BODY_TOO_LARGE: { status: 413, title: "The body is too large" },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: "The body must be application/json" },
  INVALID_REQUEST: { status: 422, title: "The request has invalid fields" },
  OVERLOADED: { status: 429, title: "The server has too much to do; nothing was done" },
  TOO_MANY_REQUESTS: { status: 429, title: "This key asks too often; nothing was done" },
  LIMIT_REACHED: { status: 429, title: "The tenant has as much as it may have" },
  INTERNAL: { status: 500, title: "The server failed" },
  NO_HISTORY: { status: 501, title: "This server keeps no history of ended leases" },
  NO_ONCE: { status: 501, title: "This server keeps no records of once" },
  NO_SCHEDULES: { status: 501, title: "This server keeps no schedules" },
  NO_TASK_LIMITS: { status: 501, title: "This server keeps no limits of kinds and queues" },
  NO_METRICS: { status: 501, title: "This server keeps no metrics" },
  NO_CONTROL: { status: 501, title: "This server keeps no keys, limits and audit" },
  STORE_UNAVAILABLE: { status: 503, title: "The store does not answer; nothing was done" },
  BUDGET_SPENT: { status: 503, title: "The caller's time was over; nothing was done" },
  CLOSING: { status: 503, title: "The server is closing; nothing was done" },
  OUTCOME_UNKNOWN: { status: 504, title: "The store did not answer in time; it may have acted" },
} as const;
export type ProblemCode = keyof typeof PROBLEMS;

/** `LEASE_EXPIRED` is `urn:leasehold:problem:lease-expired`. */
export function problemType(code: ProblemCode): string {
  return `urn:leasehold:problem:${code.toLowerCase().replaceAll("_", "-")}`;
}

/** One field that the server refused. */
export interface FieldError {
  /** `0.task_data`; empty: the body itself. */
  readonly path: string;
  readonly problem: string;
}

/** The body of an error answer: RFC 9457. */
export interface Problem {
  /** `problemType(code)` */
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ProblemCode;
  readonly requestId: string;
  readonly errors?: readonly FieldError[];
  /** Why the server refused a holder. */
  readonly reason?:
    | "expired"
    | "taken"
    | "cancelled"
    | "finished"
    | "revoked"
    | "released"
    | "gone";
  /** Who holds the resource. */
  readonly holder?: string;
  /** Of the grant in the way, like remainingMs. */
  readonly grantId?: string | null;
  readonly remainingMs?: number | null;
  /** The state that does not allow the operation. */
  readonly state?: TaskState;
}
