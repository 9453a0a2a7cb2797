/** Per-request helpers: the request id, the time budget, the limit of the body. */
import type { Context, MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import type { Clock, Env } from "leasehold";
import { InvalidOptionError, LeaseholdError } from "leasehold";
import { type Capabilities, checkInteger, newLeaseId, withTimeout } from "leasehold/internal";
import { BUDGET_HEADER } from "leasehold/internal/wire";
import type { Caller } from "./auth/caller.js";
import { invalid, ProblemError, storeProblem } from "./problems.js";

export interface AppEnv {
  Variables: {
    requestId: string;
    caller: Caller;
    arrivedMs: number;
    /** How long the caller waits, from the request's arrival; null: unknown. */
    budgetMs: number | null;
  };
}

/** The maximum timeout of a store call, and the default if the caller sends no budget. */
const LONGEST_STORE_CALL_MS = 10_000;
/**
 * The minimum timeout of a store call. Concurrent callers share a statement with the shortest of their
 * timeouts: a caller with little time left must not make it fail for the others.
 */
const SHORTEST_STORE_CALL_MS = 250;
/** Reserved so that the response to a wait is sent before the caller's time is over. */
const ANSWER_MS = 250;

const CHOSEN_ID = /^[\w.:-]{1,64}$/;

/** @param chosen the id that the caller sent */
export function requestIdOf(chosen: string | undefined, env: Env): string {
  return chosen && CHOSEN_ID.test(chosen) ? chosen : newLeaseId(env.random).slice(0, 16);
}

/** Parses the budget header; null if absent. */
export function budgetOf(request: Request): number | null {
  const text = request.headers.get(BUDGET_HEADER);
  if (text === null) return null;
  if (/^-?\d{1,15}$/.test(text)) return Number(text);
  throw invalid([{ path: BUDGET_HEADER, problem: "must be whole milliseconds" }]);
}

/** The remaining budget of a request. Routes read it right before they call the store. */
export class Budget {
  readonly #deadlineMs: number;
  readonly #clock: Clock;

  constructor(context: Context<AppEnv>, clock: Clock) {
    this.#deadlineMs = context.get("arrivedMs") + (context.get("budgetMs") ?? Infinity);
    this.#clock = clock;
  }

  /** @throws BUDGET_SPENT, before anything was done */
  #leftMs(): number {
    const leftMs = this.#deadlineMs - this.#clock.monotonic();
    if (leftMs > 0) return leftMs;
    throw new ProblemError("BUDGET_SPENT", `${BUDGET_HEADER} had passed before the work began`);
  }

  /** The timeout of a call to the store. */
  storeMs(): number {
    return Math.min(LONGEST_STORE_CALL_MS, Math.max(SHORTEST_STORE_CALL_MS, this.#leftMs()));
  }

  /** How long to wait: the requested time, or less if the budget ends earlier. */
  waitMs(wantedMs: number): number {
    return Math.max(0, Math.min(wantedMs, this.#leftMs() - ANSWER_MS));
  }

  /** Runs a call that changes nothing. Its failures always mean that nothing was done. */
  async read<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await this.#within(call, "STORE_UNAVAILABLE");
    } catch (error) {
      throw error instanceof LeaseholdError && !(error instanceof InvalidOptionError)
        ? storeProblem(error, true)
        : error;
    }
  }

  /** Runs a call that changes something and has no timeout of its own. */
  change<T>(call: () => Promise<T>): Promise<T> {
    return this.#within(call, "OUTCOME_UNKNOWN");
  }

  async #within<T>(
    call: () => Promise<T>,
    late: "STORE_UNAVAILABLE" | "OUTCOME_UNKNOWN",
  ): Promise<T> {
    const timeoutMs = this.storeMs();
    const giveUp = () => {
      throw new ProblemError(late, `no answer within ${Math.round(timeoutMs)} ms`);
    };
    // The client's connection keeps the process running. Once it is cut, the timer need not.
    return withTimeout(this.#clock, timeoutMs, call(), giveUp, { background: true });
  }
}

/** Refuses a body above the limit, by its declared length if it has one. */
export function limitBody(maxBytes: number): MiddlewareHandler {
  const onError = () => {
    throw new ProblemError("BODY_TOO_LARGE", `at most ${maxBytes} bytes`);
  };
  const counting = bodyLimit({ maxSize: maxBytes, onError });
  return (context, next) => {
    const { headers } = context.req.raw;
    const declared = headers.get("content-length");
    if (declared === null || headers.has("transfer-encoding")) return counting(context, next);
    // Reading the body stream here would disable node's fast path for it.
    return Number(declared) > maxBytes ? onError() : next();
  };
}

/**
 * Treats an empty body as absent, for routes whose body is optional: many clients send its type
 * without a body.
 */
export const emptyBodyIsNone: MiddlewareHandler = (context, next) => {
  const { raw } = context.req;
  if (raw.headers.get("content-length") === "0") {
    const { method, url, signal } = raw;
    const headers = new Headers(raw.headers);
    headers.delete("content-type");
    context.req.raw = new Request(url, { method, headers, signal });
  }
  return next();
};

/** @throws InvalidOptionError naming `path` if the server does not accept the TTL */
export function checkTtl(path: string, ttlMs: number, served: Capabilities["ttl"]): void {
  checkInteger(path, ttlMs, served.minMs, served.maxMs);
}
