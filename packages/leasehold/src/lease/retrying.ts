/**
 * Retries for stores whose calls fail only temporarily. Such a store tries once and reports the outcome:
 *
 *   failed, applied "no" ────▶ again within the call's time, with the same ids
 *   failed, applied "maybe" ─▶ again only where doing it twice does no more than doing it once
 *   failed, passed on ───────▶ not again: a server has retried, and 499 renewals would wait for one locked row
 *
 * Once any try may have been applied, the request as a whole may have been.
 */
import { Backoff, type Env, type Logger, sleep, zip } from "../env/index.js";
import { LeaseholdError, StoreUnavailableError } from "./errors.js";
import type { Failed } from "./port.js";
import { detailsOf } from "./store-errors.js";

export const DEFAULT_TIMEOUT_MS = 5_000;
const RETRY = { firstMs: 25, longestMs: 400 };

export interface RetryOptions {
  /** For all tries together; default 5,000. None begins later. */
  readonly timeoutMs?: number | undefined;
  /** Whether the request is idempotent; default true. */
  readonly repeatable?: boolean;
  /** Whether also a failure is retried that a server has passed on; default false. For the few calls of an operator. */
  readonly evenPassedOn?: boolean;
  /** Ends the backoff between attempts; the store ends the attempts themselves. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * For an operator's action that another one could come between: it is tried again unless it may have been applied.
 */
export const UNLESS_APPLIED: RetryOptions = { repeatable: false, evenPassedOn: true };

/** The logger, and beside it a listener for the errors that a store only logs, because it tries something else. */
export function notingFailures(own: Logger, note: (error: LeaseholdError) => void): Logger {
  return {
    debug(fields, message) {
      const { err } = fields as { err?: unknown };
      if (err instanceof LeaseholdError) note(err);
      own.debug(fields, message);
    },
    info: (fields, message) => own.info(fields, message),
    warn: (fields, message) => own.warn(fields, message),
    error: (fields, message) => own.error(fields, message),
  };
}

/** The tries of one store. Each is given the time that is left, in milliseconds. */
export class Retrying {
  readonly #env: Env;
  readonly #closing = new AbortController();

  constructor(env: Env) {
    this.#env = env;
  }

  /** Ends the pauses. The closed store itself answers CLOSED. */
  close(): void {
    this.#closing.abort();
  }

  /** One outcome per request, in order. What has failed is sent again, without the rest. */
  async batch<Request, Outcome extends { readonly status: string }>(
    requests: readonly Request[],
    send: (requests: readonly Request[], timeoutMs: number) => Promise<(Outcome | Failed)[]>,
    {
      timeoutMs = DEFAULT_TIMEOUT_MS,
      repeatable = true,
      evenPassedOn = false,
      signal,
    }: RetryOptions = {},
  ): Promise<(Outcome | Failed)[]> {
    const { clock, random } = this.#env;
    const deadlineMs = clock.monotonic() + timeoutMs;
    const ending = signal ?? this.#closing.signal;
    const backoff = new Backoff(random, RETRY);
    const outcomes: (Outcome | Failed)[] = [];
    let open = [...requests.keys()];
    for (;;) {
      const asked = open.map((at) => requests[at] as Request);
      const answers = await send(asked, deadlineMs - clock.monotonic());
      const wasCut = clock.monotonic() >= deadlineMs;
      let retryAfterMs = 0;
      let err: LeaseholdError | undefined;
      const again: number[] = [];
      for (const [at, answer] of zip(open, answers)) {
        const outcome = isFailed(answer) ? afterAll(outcomes[at], answer, wasCut) : answer;
        outcomes[at] = outcome;
        if (!isFailed(outcome) || !outcome.retryable) continue;
        if (outcome.passedOn && !evenPassedOn) continue;
        if (outcome.applied === "maybe" && !repeatable) continue;
        again.push(at);
        err ??= outcome.error;
        retryAfterMs = Math.max(retryAfterMs, retryAfterMsOf(outcome.error));
      }
      if (again.length === 0 || ending.aborted) return outcomes;
      // Never less than the delay that the store named.
      const pauseMs = retryAfterMs + backoff.nextMs();
      if (clock.monotonic() + pauseMs >= deadlineMs) return outcomes;
      this.#env.logger.debug({ err, requests: again.length }, "the store failed; asking it again");
      await sleep(clock, pauseMs, { signal: ending }).catch(() => {});
      // A pause may last longer: a try without a whole millisecond would only hide why the one before it failed.
      if (deadlineMs - clock.monotonic() < 1) return outcomes;
      open = again;
    }
  }

  /** One request. */
  async one<Outcome extends { readonly status: string }>(
    send: (timeoutMs: number) => Promise<Outcome | Failed>,
    options?: RetryOptions,
  ): Promise<Outcome | Failed> {
    const sendOne = async (_: readonly null[], timeoutMs: number) => [await send(timeoutMs)];
    const [outcome] = await this.batch([null], sendOne, options);
    return outcome as Outcome | Failed;
  }

  /** A call that throws instead of returning `failed`. */
  async call<T>(work: (timeoutMs: number) => Promise<T>, options?: RetryOptions): Promise<T> {
    const send = async (timeoutMs: number) => {
      try {
        return { status: "done", value: await work(timeoutMs) } as const;
      } catch (error) {
        if (error instanceof LeaseholdError) return failedBy(error);
        throw error;
      }
    };
    const outcome = await this.one(send, options);
    if (outcome.status === "failed") throw outcome.error;
    return outcome.value;
  }

  /** As {@link call}, for a call that changes nothing. */
  async read<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await this.call(work);
    } catch (error) {
      throw error instanceof LeaseholdError ? asReadError(error) : error;
    }
  }
}

/** The error of a read: it changes nothing, even if its answer was lost. */
export function asReadError(error: LeaseholdError): LeaseholdError {
  if (!(error instanceof StoreUnavailableError) || error.outcome === "none") return error;
  const { message, cause = error } = error;
  return new StoreUnavailableError(message, { outcome: "none", cause, ...detailsOf(error) });
}

function isFailed<Outcome extends { readonly status: string }>(
  outcome: Outcome | Failed,
): outcome is Failed {
  return outcome.status === "failed";
}

/**
 * An earlier try may have been applied although this one was not. And where the time ended this one, the earlier one says
 * more of the reason.
 */
function afterAll(
  before: { readonly status: string } | undefined,
  failed: Failed,
  wasCut: boolean,
): Failed {
  if (!before || !isFailed(before)) return failed;
  const applied = before.applied === "maybe" ? "maybe" : failed.applied;
  const { error } = wasCut && failed.retryable ? before : failed;
  if (applied === failed.applied && error === failed.error) return failed;
  const isSure = error instanceof StoreUnavailableError && error.outcome === "none";
  return { ...failed, applied, error: applied === "maybe" && isSure ? asUnknown(error) : error };
}

/** The error of a call that had no effect, after one that may have had. What else it says still counts. */
export function asUnknown(error: LeaseholdError): StoreUnavailableError {
  const details = error instanceof StoreUnavailableError ? detailsOf(error) : {};
  return new StoreUnavailableError(error.message, { outcome: "unknown", cause: error, ...details });
}

function failedBy(error: LeaseholdError): Failed {
  const applied = error.outcome === "none" ? "no" : "maybe";
  return { status: "failed", applied, retryable: error.retryable, error };
}

/** The delay before a retry that the store named; 0 if it named none. */
export function retryAfterMsOf(error: LeaseholdError): number {
  return error instanceof StoreUnavailableError ? (error.retryAfterMs ?? 0) : 0;
}
