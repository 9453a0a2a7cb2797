/** What belongs to one request: its id, its time budget, the limit of its body. */
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
    /** From its arrival on; null when the caller has not said how long it will wait. */
    budgetMs: number | null;
  };
}

/** Of a call to the store; for callers that do not say how long they will wait, and at most. */
const LONGEST_STORE_CALL_MS = 10_000;
/**
 * Concurrent callers share a statement, whose timeout is that of the least patient one: a caller
 * with next to no time left must not make it fail for the others.
 */
const SHORTEST_STORE_CALL_MS = 250;
/** So that the answer to a wait is on its way before the caller's time is over. */
const ANSWER_MS = 250;

const CHOSEN_ID = /^[\w.:-]{1,64}$/;

/** @param chosen by the caller */
export function requestIdOf(chosen: string | undefined, env: Env): string {
  return chosen && CHOSEN_ID.test(chosen) ? chosen : newLeaseId(env.random).slice(0, 16);
}

/** What the caller says of it. */
export function budgetOf(request: Request): number | null {
  const text = request.headers.get(BUDGET_HEADER);
  if (text === null) return null;
  if (/^-?\d{1,15}$/.test(text)) return Number(text);
  throw invalid([{ path: BUDGET_HEADER, problem: "must be whole milliseconds" }]);
}

/** What is left of a request's budget. Asked for right before the store is called. */
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

  /** How long to wait of what was asked for. */
  waitMs(wantedMs: number): number {
    return Math.max(0, Math.min(wantedMs, this.#leftMs() - ANSWER_MS));
  }

  /** What a call that changes nothing answers; whatever becomes of it, nothing was done. */
  async read<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await this.#within(call, "STORE_UNAVAILABLE");
    } catch (error) {
      throw error instanceof LeaseholdError && !(error instanceof InvalidOptionError)
        ? storeProblem(error, true)
        : error;
    }
  }

  /** What a call answers that changes something and takes no timeout itself. */
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
    // The client's connection holds the process open; once it is cut, nothing needs to.
    return withTimeout(this.#clock, timeoutMs, call(), giveUp, { background: true });
  }
}

/** Refuses a body above the limit, by its declared length where there is one. */
export function limitBody(maxBytes: number): MiddlewareHandler {
  const onError = () => {
    throw new ProblemError("BODY_TOO_LARGE", `at most ${maxBytes} bytes`);
  };
  const counting = bodyLimit({ maxSize: maxBytes, onError });
  return (context, next) => {
    const { headers } = context.req.raw;
    const declared = headers.get("content-length");
    if (declared === null || headers.has("transfer-encoding")) return counting(context, next);
    // Reading the body stream here would cost node's fast path to it.
    return Number(declared) > maxBytes ? onError() : next();
  };
}

/**
 * For routes whose body may be left out: many clients name its type all the same. An empty one counts
 * as none.
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

/** @throws InvalidOptionError naming `path` when the ttl is not served */
export function checkTtl(path: string, ttlMs: number, served: Capabilities["ttl"]): void {
  checkInteger(path, ttlMs, served.minMs, served.maxMs);
}
