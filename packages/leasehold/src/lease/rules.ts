/**
 * The specification: what a store does with one request, as pure functions of
 * (record or none, request, store time). Every store decides by them; the lean statements of PostgreSQL and Redis say the same of
 * what is simple, in SQL and Lua. The conformance suite and the history checker hold every engine against them.
 *
 *        acquire            renew (same leaseId, before expiry)
 *   free ───────▶ live ─────┐
 *    ▲            │ ▲───────┘
 *    │ release,   │
 *    │ expiry     │ revoke atExpiry
 *    │            ▼
 *    └───────── revoked   (renewals are refused; free at the old expiry, or at its release)
 *
 * One comparison decides: a record that was not released excludes others iff now < expiresAt,
 * strictly. A released one excludes no request, even if the store's clock then steps back.
 */
import { grantIdOf, invariant } from "../env/index.js";
import type {
  AcquireOutcome,
  AcquireRequest,
  ReleaseOutcome,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  RevokeOutcome,
  RevokeRequest,
} from "./port.js";

/** What a store keeps for a key: its last grant. Times in milliseconds of the store's clock. */
export interface LeaseRecord {
  /** Empty for the lock of another program, which no request names. */
  readonly leaseId: string;
  readonly holder: string;
  readonly token: number;
  readonly ttlMs: number;
  readonly grantedAtMs: number;
  readonly renewedAtMs: number | null;
  /** Until then the key is not granted anew. Infinity: it is held, and its end is not known. */
  readonly expiresAtMs: number;
  /** Set when a release or a revoke ended the grant before its expiry. */
  readonly ended: "released" | "revoked" | null;
  readonly metadata: string | null;
}

/** Outcomes without what only a store can add: its failures, and its clock as text. */
type Decided<T> = T extends { status: "failed" } ? never : Omit<T, "expiresAt">;

/** What a rule decides: the record that the store then has, null for none, and the answer. */
export interface Decision<Outcome> {
  readonly record: LeaseRecord | null;
  readonly outcome: Decided<Outcome>;
}

/** Whether the grant still stands: neither ended nor expired. */
export function isLive(record: LeaseRecord, nowMs: number): boolean {
  return record.ended === null && nowMs < record.expiresAtMs;
}

/** Whether the key must not be granted to another holder yet. */
export function excludes(record: LeaseRecord, nowMs: number): boolean {
  return record.ended !== "released" && nowMs < record.expiresAtMs;
}

/**
 * The token of a new grant. `floor` is the largest token among collected records; `clock` is the
 * store's time in microseconds, or 0 where the store needs none because it forgets nothing.
 */
function nextToken(last: number, floor: number, clock: number): number {
  const token = Math.max(last + 1, floor + 1, clock);
  invariant(Number.isSafeInteger(token), `token ${token} is a safe integer`);
  return token;
}

export function acquire(
  record: LeaseRecord | null,
  request: AcquireRequest,
  nowMs: number,
  token: (last: number) => number,
): Decision<AcquireOutcome> {
  if (record?.leaseId === request.leaseId) {
    // A repeated request answers the grant that it made before: same token, what is left of it.
    if (!isLive(record, nowMs)) return { record, outcome: { status: "ended" } };
    return { record, outcome: acquired(record, nowMs) };
  }
  if (record && excludes(record, nowMs)) {
    return {
      record,
      outcome: {
        status: "held",
        holder: record.holder,
        grantId: record.leaseId === "" ? null : grantIdOf(record.leaseId),
        remainingMs: record.expiresAtMs - nowMs,
      },
    };
  }
  const granted: LeaseRecord = {
    leaseId: request.leaseId,
    holder: request.holder,
    token: token(record?.token ?? 0),
    ttlMs: request.ttlMs,
    grantedAtMs: nowMs,
    renewedAtMs: null,
    expiresAtMs: nowMs + request.ttlMs,
    ended: null,
    metadata: request.metadata ?? null,
  };
  invariant(!record || granted.token > record.token, "tokens of a resource grow");
  return { record: granted, outcome: acquired(granted, nowMs) };
}

function renew(
  record: LeaseRecord | null,
  request: RenewRequest,
  nowMs: number,
): Decision<RenewOutcome> {
  const lost = (reason: "expired" | "revoked" | "taken" | "gone"): Decision<RenewOutcome> => ({
    record,
    outcome: { status: "lost", reason },
  });
  if (!record) return lost("gone");
  if (record.leaseId !== request.leaseId) return lost("taken");
  if (record.ended === "revoked") return lost("revoked");
  if (record.ended === "released") return lost("gone");
  if (nowMs >= record.expiresAtMs) return lost("expired");
  const renewed: LeaseRecord = {
    ...record,
    ttlMs: request.ttlMs,
    renewedAtMs: nowMs,
    // Never earlier than promised: an older answer may already be trusted.
    expiresAtMs: Math.max(record.expiresAtMs, nowMs + request.ttlMs),
  };
  return {
    record: renewed,
    outcome: {
      status: "renewed",
      token: renewed.token,
      ttlMs: renewed.ttlMs,
      remainingMs: renewed.expiresAtMs - nowMs,
    },
  };
}

function release(
  record: LeaseRecord | null,
  request: ReleaseRequest,
  nowMs: number,
): Decision<ReleaseOutcome> {
  if (record?.leaseId !== request.leaseId) return { record, outcome: { status: "notHeld" } };
  if (record.ended === "released") return { record, outcome: { status: "released" } };
  if (!excludes(record, nowMs)) return { record, outcome: { status: "notHeld" } };
  // A holder may also hand back early what an operator has revoked: it has stopped.
  return {
    record: { ...record, ended: "released", expiresAtMs: nowMs },
    outcome: { status: "released" },
  };
}

function revoke(
  record: LeaseRecord | null,
  request: RevokeRequest,
  nowMs: number,
): Decision<RevokeOutcome> {
  // A revoked grant that still blocks the resource can be freed at once by a second revoke.
  if (!record || !excludes(record, nowMs)) return { record, outcome: { status: "notHeld" } };
  if (request.expectedToken !== undefined && request.expectedToken !== record.token) {
    return { record, outcome: { status: "otherToken" } };
  }
  const revoked: LeaseRecord = {
    ...record,
    ended: "revoked",
    expiresAtMs: request.free === "now" ? nowMs : record.expiresAtMs,
  };
  return {
    record: revoked,
    outcome: {
      status: "revoked",
      token: record.token,
      freeInMs: revoked.expiresAtMs - nowMs,
    },
  };
}

function acquired(record: LeaseRecord, nowMs: number): Decided<AcquireOutcome> {
  return {
    status: "acquired",
    token: record.token,
    ttlMs: record.ttlMs,
    remainingMs: record.expiresAtMs - nowMs,
  };
}

/**
 * What a store decides for each request of a batch: a pure function of the key's record, the request and
 * the store's time, which returns the record to keep and the outcome to answer with.
 * @example
 * ```ts
 * import { rules } from "leasehold/port";
 *
 * const grant = { namespace: "default", resource: "report", leaseId: "a".repeat(48) };
 * const request = { ...grant, holder: "web-1", ttlMs: 30_000 };
 * const { record, outcome } = rules.acquire(null, request, Date.now(), (last) => last + 1);
 * console.log(outcome.status, record?.token);
 * console.log(rules.release(record, grant, Date.now()).outcome.status);
 * ```
 */
export const rules = { acquire, renew, release, revoke, isLive, excludes, nextToken } as const;
