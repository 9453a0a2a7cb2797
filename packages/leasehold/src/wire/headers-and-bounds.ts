/** Headers and bounds of the HTTP API. */

/**
 * How long the caller will still wait for the answer, in whole milliseconds. A server that cannot
 * begin within it answers 503 and does nothing.
 */
export const BUDGET_HEADER = "leasehold-budget-ms";
/** Named in every answer and in the server's log; a caller may choose it. */
export const REQUEST_ID_HEADER = "x-request-id";

/**
 * Who the caller of an operator action says it is, percent-encoded. The audit keeps it as claimed, beside
 * the actor that the key proves.
 */
export const ACTOR_HEADER = "leasehold-actor";

export const BOUNDS = {
  /** Requests or tasks in one array. */
  batch: 1_000,
  /** Revocations of one request: each has an audit entry of its own. */
  revocations: 100,
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
  /** How long an acquire keeps its place in the wait queue. A longer wait sends another acquire. */
  queueMs: 3_600_000,
  /** Levels of arrays and objects within JSON. */
  depth: 1_000,
} as const;
