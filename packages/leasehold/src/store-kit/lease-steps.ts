/**
 * The four operations of the port by the rules (lease/rules.ts, lease/queue.ts), for engines that load and save. A step decides
 * one request on the key as the requests before it have left it.
 */
import {
  type AcquireOutcome,
  type AcquireRequest,
  acquireAt,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  rules,
  viewOf,
} from "../lease/index.js";
import type { Step } from "./deciding.js";

/** The store's time as text, for people. */
export type TimeText = (storeMs: number) => string | null;

export function acquireStep(
  textOf: TimeText,
  returnReplaced: boolean,
): Step<AcquireRequest, AcquireOutcome> {
  return (request, key) => {
    const { nowMs, loaded, current: before } = key;
    const { isPaused } = loaded;
    const isHeld = before !== null && rules.excludes(before, nowMs);
    const isOthers = before?.leaseId !== request.leaseId;
    // A caller that does not wait learns who holds the resource, without the queue.
    if (!loaded.queue && (request.queueMs || !(isOthers && (isHeld || isPaused)))) return null;
    const position = key.position(request.leaseId);
    const token = (last: number) => rules.nextToken(last, 0, loaded.leastToken);
    const { record, outcome, waiter } = acquireAt(
      position,
      before,
      request,
      nowMs,
      token,
      isPaused,
    );
    if (waiter === "served") key.serve(request.leaseId);
    else {
      const isReserved = outcome.status === "held" && outcome.grantId === null && !isPaused;
      if ((isReserved && !key.isFirstKnown) || !key.join(request)) return null;
    }
    key.write(record);
    if (outcome.status === "held") {
      const { status, holder, grantId, remainingMs: heldMs, ahead } = outcome;
      // The end of another program's lock may not be known.
      const remainingMs = heldMs === null || !Number.isFinite(heldMs) ? null : wholeMs(heldMs);
      const held = { status, holder, grantId, remainingMs };
      return ahead === undefined ? held : { ...held, ahead };
    }
    if (outcome.status !== "acquired") return outcome;
    if (record === before) return withTerm(key.trusted(outcome), nowMs, textOf);
    const granted = withTerm(outcome, nowMs, textOf);
    if (!returnReplaced || !before) return granted;
    const replaced = loaded.view ? loaded.view() : viewOf(request, before, nowMs, textOf);
    return replaced ? { ...granted, replaced } : granted;
  };
}

export function renewStep(textOf: TimeText): Step<RenewRequest, RenewOutcome> {
  return (request, key) => {
    const { record, outcome } = rules.renew(key.current, request, key.nowMs);
    key.write(record);
    return outcome.status === "renewed" ? withTerm(outcome, key.nowMs, textOf) : outcome;
  };
}

export const releaseStep: Step<ReleaseRequest, ReleaseOutcome> = (request, key) => {
  if (!key.loaded.queue) return null;
  const { current: before, nowMs } = key;
  const { record, outcome } = rules.release(before, request, nowMs);
  // A free resource that was reserved for this waiter is now reserved for the next one.
  const isPassedOn = key.withdraw(request.leaseId) && record === before;
  if (isPassedOn && !(before && rules.excludes(before, nowMs))) key.wakes = true;
  key.write(record);
  return outcome;
};

export const revokeStep: Step<RevokeRequest, RevokeOutcome> = (request, key) => {
  const { record, outcome } = rules.revoke(key.current, request, key.nowMs);
  key.write(record);
  if (outcome.status !== "revoked") return outcome;
  return { ...outcome, freeInMs: wholeMs(outcome.freeInMs) };
};

/** Rounds up, but for what the sum of two fractions adds. */
function wholeMs(ms: number): number {
  return Math.ceil(Math.round(ms * 1_000) / 1_000);
}

interface Granted<Status extends string> {
  readonly status: Status;
  readonly token: number;
  readonly ttlMs: number;
  readonly remainingMs: number;
}

/**
 * Rounds down to whole milliseconds, so that the holder stops early rather than late. Written out: objects made by
 * spreading outlive the collections of young objects, which then cost more than the grants.
 */
function withTerm<Status extends string>(
  { status, token, ttlMs, remainingMs }: Granted<Status>,
  nowMs: number,
  textOf: TimeText,
) {
  return {
    status,
    token,
    ttlMs,
    remainingMs: Math.floor(remainingMs),
    expiresAt: textOf(nowMs + remainingMs),
  };
}
