/**
 * Applies the rules to a Lease object: from a request and the current object to an outcome and a write.
 */

import {
  type AcquireOutcome,
  type AcquireRequest,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  rules,
} from "../../core/index.js";
import { grantIdOf } from "../../env/index.js";
import {
  durationMsOf,
  isOurs,
  type LeaseObject,
  nextTokenOf,
  type Observed,
  recordOf,
  storedIdOf,
  viewIn,
} from "./records.js";
import {
  freedIn,
  grantedIn,
  isVisiblyChanged,
  renewedIn,
  revokedIn,
  type Times,
} from "./records-changes.js";

/** Lease objects count durations in whole seconds. */
export const WHOLE_MS = 1_000;

/** The current object, if it exists. */
export interface Found extends Observed, Times {
  /** The API server's clock. */
  readonly serverWallMs: number | null;
}

/** The decision on a request. If `write` is set, the outcome holds once it is written. */
export interface Step<Outcome> {
  readonly outcome: Outcome;
  readonly write?: LeaseObject;
  /** Set if the write makes or renews a grant: see {@link Observed}. */
  readonly trustFromMs?: number;
}

export function decideAcquire(request: AcquireRequest, found: Found): Step<AcquireOutcome> {
  const { object, nowMs, serverWallMs, trustFromMs } = found;
  const before = recordOf(found);
  const { record, outcome } = rules.acquire(before, asked(request), nowMs, () =>
    nextTokenOf(object, serverWallMs),
  );
  if (outcome.status === "held" && before) {
    const grantId = isOurs(object, before) ? grantIdOf(before.leaseId) : null;
    return { outcome: { ...outcome, grantId, remainingMs: Math.ceil(outcome.remainingMs ?? 0) } };
  }
  if (outcome.status !== "acquired" || !record) return { outcome: outcome as AcquireOutcome };
  if (record !== before) {
    const replaced = before && isOurs(object, before) ? viewIn(request, found, nowMs) : null;
    const step = trusted(found, grantedIn(object, request, record, found), outcome);
    return { ...step, outcome: { ...step.outcome, ...(replaced && { replaced }) } };
  }
  // A repeated acquire. The store knows only for its own writes since when others have seen the grant.
  if (trustFromMs === null) {
    return trusted(found, renewedIn(object, request, record, found), outcome);
  }
  const remainingMs = lower(trustFromMs + durationMsOf(object) - nowMs);
  return { outcome: { ...outcome, remainingMs, expiresAt: null } };
}

export function decideRenew(request: RenewRequest, found: Found): Step<RenewOutcome> {
  const { record, outcome } = rules.renew(recordOf(found), asked(request), found.nowMs);
  if (outcome.status !== "renewed" || !record) return { outcome: outcome as RenewOutcome };
  return trusted(found, renewedIn(found.object, request, record, found), outcome);
}

export function decideRelease(request: ReleaseRequest, found: Found): Step<ReleaseOutcome> {
  const before = recordOf(found);
  const asked = { ...request, leaseId: storedIdOf(request.leaseId) };
  const { record, outcome } = rules.release(before, asked, found.nowMs);
  if (record === before || !record) return { outcome };
  return { outcome, write: freedIn(found.object, request, record, found) };
}

export function decideRevoke(request: RevokeRequest, found: Found): Step<RevokeOutcome> {
  const before = recordOf(found);
  const { record, outcome } = rules.revoke(before, request, found.nowMs);
  if (outcome.status !== "revoked" || !record) return { outcome };
  if (request.free === "now") {
    return { outcome, write: freedIn(found.object, request, record, found) };
  }
  // Another write would extend the grant.
  if (before?.ended === "revoked") {
    return { outcome: { ...outcome, freeInMs: Math.ceil(outcome.freeInMs) } };
  }
  const write = revokedIn(found.object, request, record, found);
  return { outcome: { ...outcome, freeInMs: durationMsOf(write) }, write };
}

/**
 * Converts a request to record form: its lease id as it is stored, and a TTL rounded up to whole seconds.
 */
function asked<Request extends AcquireRequest | RenewRequest>(request: Request): Request {
  const ttlMs = Math.ceil(request.ttlMs / WHOLE_MS) * WHOLE_MS;
  return { ...request, leaseId: storedIdOf(request.leaseId), ttlMs };
}

/**
 * A write that makes or renews a grant, and how long its holder may trust it. Other clients count from
 * when they see the object change, so a write that looks like the previous one extends nothing.
 */
function trusted<Outcome extends { readonly remainingMs: number }>(
  { object, nowMs, trustFromMs }: Found,
  write: LeaseObject,
  outcome: Outcome,
): Step<Outcome & { readonly expiresAt: null }> {
  // A write by another client that looks the same is less than a second old.
  const fromMs = isVisiblyChanged(object, write) ? nowMs : (trustFromMs ?? nowMs - WHOLE_MS);
  const remainingMs = lower(fromMs + durationMsOf(write) - nowMs);
  return { outcome: { ...outcome, remainingMs, expiresAt: null }, write, trustFromMs: fromMs };
}

/** Rounds down, so that the holder stops early rather than late. */
function lower(ms: number): number {
  return Math.max(0, Math.floor(ms));
}
