/** What work throws after it was asked to stop. The abort decides the outcome, so the error has to be reported beside it. */
import { type Logger, propertyOf } from "../env/index.js";
import type { HeldLease } from "./held-lease.js";

/** Chains of causes can be endless. */
const MOST_CAUSES = 10;

/** Logs it: as a warning, unless the work most likely only passes on the abort. */
export function logThrownLate(
  logger: Logger,
  lease: HeldLease,
  err: unknown,
  fields: object = { resource: lease.resource, grantId: lease.grantId },
): void {
  const level = isOfAbort(lease, err) ? "debug" : "warn";
  logger[level]({ err, ...fields }, "the work threw after it was asked to stop");
}

/**
 * The error that the work under a lease ends with: the loss of the lease, if it is lost, with what the work threw as its
 * cause. A loss that has a cause already keeps it.
 */
export function lossOr(error: unknown, lease: HeldLease, logger: Logger): unknown {
  const { lostError } = lease;
  if (!lostError) return error;
  if (causes(error).includes(lostError)) return lostError;
  if (lostError.cause === undefined) {
    // Not enumerable, as the constructor of Error defines it.
    const cause = { value: error, configurable: true, writable: true };
    Object.defineProperty(lostError, "cause", cause);
  } else {
    logThrownLate(logger, lease, error);
  }
  return lostError;
}

function isOfAbort({ signal, lostError }: HeldLease, error: unknown): boolean {
  const reasons: readonly unknown[] = [signal.reason, lostError];
  if (propertyOf(error, "name") === "AbortError") return true;
  if (causes(error).some((cause) => reasons.includes(cause))) return true;
  // Other calls in the work may reject for the same reason, with an error of their own.
  const code = propertyOf(error, "code");
  return code !== undefined && reasons.some((reason) => propertyOf(reason, "code") === code);
}

/** The error and its causes. */
function causes(error: unknown): readonly unknown[] {
  const found = [error];
  for (let at = 0; at < MOST_CAUSES; at += 1) {
    const cause = propertyOf(found[at], "cause");
    if (cause === undefined) break;
    found.push(cause);
  }
  return found;
}
