import { isError, isInstance, propertyOf } from "../env/index.js";
import { checkInteger, checkKnown, checkTime, InvalidOptionError, kindOf } from "../lease/index.js";
import { LONGEST_BACKOFF_MS } from "./settings.js";

/** When the task is tried again, and how often it may be put off. */
export interface RetryLaterOptions {
  /** In so many milliseconds, up to thirty days. Default: at `at`. */
  readonly inMs?: number;
  /** At this time, by the clock of the worker; at once if it has passed. Default: in `inMs`. One of the two must be given. */
  readonly at?: Date;
  /** Why, for people: shown with the attempt. Default: nothing. */
  readonly reason?: string;
  /**
   * How many times the task may be put off. Once more, and it is dead. Default: without a limit, because what puts a task off is
   * usually not its own fault.
   */
  readonly mostTimes?: number;
}

const OPTIONS: Readonly<Record<keyof RetryLaterOptions, true>> = {
  inMs: true,
  at: true,
  reason: true,
  mostTimes: true,
};

/**
 * Thrown by a handler to try its task again later. It counts neither as a failure nor as a crash, and callers that wait for the
 * result go on waiting.
 * @throws INVALID_OPTION
 * @example
 * ```ts
 * import { defineTask, RetryLater } from "leasehold";
 *
 * const invoice = defineTask<{ readyAt: string }>("invoice.send");
 * export const handler = invoice.handle(({ readyAt }) => {
 *   const at = new Date(readyAt);
 *   if (at > new Date()) throw new RetryLater({ at, reason: "not due yet", mostTimes: 10 });
 *   return "sent";
 * });
 * ```
 */
export class RetryLater extends Error {
  override readonly name = "RetryLater";
  readonly inMs: number | undefined;
  readonly at: Date | undefined;
  readonly reason: string | null;
  readonly mostTimes: number | null;

  constructor(options: RetryLaterOptions) {
    checkKnown(options, OPTIONS);
    const { inMs, at, reason, mostTimes } = options;
    if ((inMs === undefined) === (at === undefined)) {
      throw new InvalidOptionError("inMs", "or at must be given, and not both");
    }
    if (inMs !== undefined) checkInteger("inMs", inMs, 0, LONGEST_BACKOFF_MS);
    if (at !== undefined) {
      if (!(at instanceof Date)) {
        throw new InvalidOptionError("at", `must be a Date, got ${kindOf(at)}`);
      }
      checkTime("at", at.getTime());
    }
    if (reason !== undefined && typeof reason !== "string") {
      throw new InvalidOptionError("reason", `must be a string, got ${kindOf(reason)}`);
    }
    if (mostTimes !== undefined) checkInteger("mostTimes", mostTimes, 1, 1_000_000);
    super(reason === undefined ? "try the task again later" : `later: ${reason}`);
    this.inMs = inMs;
    this.at = at;
    this.reason = reason ?? null;
    this.mostTimes = mostTimes ?? null;
  }
}

/** One of another copy of the package counts too: see `isFinal`. */
export function isRetryLater(error: unknown): error is RetryLater {
  if (isInstance(error, RetryLater)) return true;
  return isError(error) && propertyOf(error, "name") === "RetryLater";
}

/** How long from `nowMs` on, in milliseconds since the epoch, the task is put off. */
export function retryInMs({ inMs, at }: Pick<RetryLater, "inMs" | "at">, nowMs: number): number {
  const wantedMs = inMs ?? (at?.getTime() ?? nowMs) - nowMs;
  return Math.min(Math.max(0, Math.ceil(wantedMs)), LONGEST_BACKOFF_MS);
}
