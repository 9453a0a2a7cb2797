/**
 * What both sides of the wire share and that needs no schema library: headers, limits, the names of
 * problems, lease ids. Clients import this file at run time, and of the others only the types.
 */

/**
 * How long the caller will still wait for the answer, in whole milliseconds. A server that cannot
 * begin within it answers 503 and does nothing.
 */
export const BUDGET_HEADER = "leasehold-budget-ms";
/** Named in every answer and in the server's log; a caller may choose it. */
export const REQUEST_ID_HEADER = "x-request-id";

export const LIMITS = {
  /** Requests or tasks in one array. */
  batch: 1_000,
  bodyBytes: 64 * 1024,
  /** Of the routes that take arrays of lease requests. */
  batchBodyBytes: 1024 * 1024,
  /** Of the routes that carry the data, progress or output of tasks. */
  payloadBodyBytes: 4 * 1024 * 1024,
  /** Items of a page. */
  page: 200,
  /** Tasks of one claim. */
  claim: 100,
  /** Queues or kinds of one claim. */
  names: 200,
  waitMs: 30_000,
  /** For how long an acquirer leaves word that it waits. Who waits longer leaves word again. */
  queueMs: 3_600_000,
  /** Levels of arrays and objects within JSON. */
  depth: 1_000,
} as const;

/** Everything that can go wrong, by the code that stands in the answer. Codes never change. */
export const PROBLEMS = {
  MALFORMED_JSON: { status: 400, title: "The body is not JSON" },
  MALFORMED_REQUEST: { status: 400, title: "The request's target or Host header is malformed" },
  UNAUTHENTICATED: { status: 401, title: "A valid API key is needed" },
  FORBIDDEN: { status: 403, title: "This key may not do that" },
  UNKNOWN_ROUTE: { status: 404, title: "There is no such route" },
  UNKNOWN_TASK: { status: 404, title: "There is no such task" },
  METHOD_NOT_ALLOWED: { status: 405, title: "The route does not know this method" },
  UNKNOWN_LEASE: { status: 404, title: "There is no such lease" },
  UNKNOWN_KEY: { status: 404, title: "There is no such API key" },
  LEASE_HELD: { status: 409, title: "Somebody else holds the resource" },
  LEASE_ENDED: { status: 409, title: "The grant of this leaseId has ended" },
  LEASE_EXPIRED: { status: 409, title: "The lease has expired" },
  LEASE_TAKEN: { status: 409, title: "The resource or task has been granted anew" },
  LEASE_REVOKED: { status: 409, title: "An operator has ended the lease" },
  LEASE_ID_REQUIRED: { status: 409, title: "Only its leaseId speaks for this grant" },
  TASK_CANCELLED: { status: 409, title: "The task was cancelled" },
  TASK_FINISHED: { status: 409, title: "The task has ended already" },
  STATE_CONFLICT: { status: 409, title: "The task's state does not allow this" },
  BODY_TOO_LARGE: { status: 413, title: "The body is too large" },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: "The body must be application/json" },
  INVALID_REQUEST: { status: 422, title: "The request has invalid fields" },
  OVERLOADED: { status: 429, title: "The server has too much to do; nothing was done" },
  TOO_MANY_REQUESTS: { status: 429, title: "This key asks too often; nothing was done" },
  LIMIT_REACHED: { status: 429, title: "The tenant has as much as it may have" },
  INTERNAL: { status: 500, title: "The server failed" },
  NO_HISTORY: { status: 501, title: "This server keeps no history of ended leases" },
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

/**
 * A lease id as it travels: the resource as base64url, a dot, the 32 hex digits. It finds its own
 * resource, and like them it is a secret.
 */
export function toWireLeaseId(resource: string, leaseId: string): string {
  return located(resource, leaseId);
}

/** The resource and the bare id; null if the text is no lease id. One grant has one spelling. */
export function fromWireLeaseId(text: string): { resource: string; leaseId: string } | null {
  const found = locate(text, 32);
  return found && { resource: found.resource, leaseId: found.id };
}

/** The public name of a grant as it travels: as its lease id, with the grantId's 16 hex digits. */
export function toWireGrantId(resource: string, grantId: string): string {
  return located(resource, grantId);
}

export function fromWireGrantId(text: string): { resource: string; grantId: string } | null {
  const found = locate(text, 16);
  return found && { resource: found.resource, grantId: found.id };
}

function located(resource: string, id: string): string {
  const bytes = new TextEncoder().encode(resource);
  const base64 = btoa(String.fromCharCode(...bytes));
  const base64url = base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return `${base64url}.${id}`;
}

const LOCATED = /^([A-Za-z0-9_-]{2,344})\.([0-9a-f]+)$/;

function locate(text: string, digits: number): { resource: string; id: string } | null {
  const [, base64url, id] = LOCATED.exec(text) ?? [];
  if (base64url === undefined || id?.length !== digits) return null;
  try {
    const binary = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
    const resource = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return located(resource, id) === text ? { resource, id } : null;
  } catch {
    return null;
  }
}
