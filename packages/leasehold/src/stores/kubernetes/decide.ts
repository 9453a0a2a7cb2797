/** What becomes of a request at what is there: the rules, asked about an object of Kubernetes. */

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
import { digestOf } from "../../env/index.js";
import {
  durationMsOf,
  grantIdIn,
  isOurs,
  type LeaseObject,
  nextTokenOf,
  type Observed,
  recordOf,
  viewIn,
} from "./records.js";
import {
  freedIn,
  grantedIn,
  looksChanged,
  renewedIn,
  revokedIn,
  type Times,
} from "./records-changes.js";

/** Leases last whole seconds. */
export const WHOLE_MS = 1_000;

/** What is there now. */
export interface Found extends Observed, Times {
  /** The API server's clock. */
  readonly serverWallMs: number | null;
}

/** What a request comes to; where `write` is set, once that is written. */
export interface Step<Outcome> {
  readonly outcome: Outcome;
  readonly write?: LeaseObject;
  /** Of a write that makes or renews a grant: see {@link Observed}. */
  readonly trustFromMs?: number;
}

export function decideAcquire(request: AcquireRequest, found: Found): Step<AcquireOutcome> {
  const { object, nowMs, serverWallMs, trustFromMs } = found;
  const before = recordOf(found);
  const { record, outcome } = rules.acquire(before, asked(request), nowMs, () =>
    nextTokenOf(object, serverWallMs),
  );
  if (outcome.status === "held" && before) {
    const grantId = isOurs(object, before) ? grantIdIn(before.leaseId) : null;
    return { outcome: { ...outcome, grantId, remainingMs: Math.ceil(outcome.remainingMs ?? 0) } };
  }
  if (outcome.status !== "acquired" || !record) return { outcome: outcome as AcquireOutcome };
  if (record !== before) {
    const replaced = before && isOurs(object, before) ? viewIn(request, found, nowMs) : null;
    const step = trusted(found, grantedIn(object, request, record, found), outcome);
    return { ...step, outcome: { ...step.outcome, ...(replaced && { replaced }) } };
  }
  // It was asked before. Since when others have known it we can tell of a write of ours only.
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
  const asked = { ...request, leaseId: digestOf(request.leaseId) };
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
  // Written once more it would last longer.
  if (before?.ended === "revoked") {
    return { outcome: { ...outcome, freeInMs: Math.ceil(outcome.freeInMs) } };
  }
  const write = revokedIn(found.object, request, record, found);
  return { outcome: { ...outcome, freeInMs: durationMsOf(write) }, write };
}

/** As records have it: a digest for the lease id, and seconds, longer than asked but never shorter. */
function asked<Request extends AcquireRequest | RenewRequest>(request: Request): Request {
  const ttlMs = Math.ceil(request.ttlMs / WHOLE_MS) * WHOLE_MS;
  return { ...request, leaseId: digestOf(request.leaseId), ttlMs };
}

/**
 * A write that makes or renews a grant, and how much of it its holder may trust in. Others count from
 * when they see it change, so a write that looks like the one before extends nothing.
 */
function trusted<Outcome extends { readonly remainingMs: number }>(
  { object, nowMs, trustFromMs }: Found,
  write: LeaseObject,
  outcome: Outcome,
): Step<Outcome & { readonly expiresAt: null }> {
  // A write of somebody else's that looks like this one is less than a second old.
  const fromMs = looksChanged(object, write) ? nowMs : (trustFromMs ?? nowMs - WHOLE_MS);
  const remainingMs = lower(fromMs + durationMsOf(write) - nowMs);
  return { outcome: { ...outcome, remainingMs, expiresAt: null }, write, trustFromMs: fromMs };
}

/** Rounded to the side on which the holder stops too early. */
function lower(ms: number): number {
  return Math.max(0, Math.floor(ms));
}
