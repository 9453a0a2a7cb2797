import { grantIdOf } from "../env/index.js";
import type { Key, LeaseState, LeaseView } from "./port.js";
import { excludes, isLive, type LeaseRecord } from "./rules.js";

export function stateOf(record: LeaseRecord, nowMs: number): LeaseState {
  return record.ended ?? (isLive(record, nowMs) ? "live" : "expired");
}

/**
 * A record as people see it: without its secret.
 * @param nowMs store time
 * @param text store time as people read it
 * @example
 * ```ts
 * import { rules, viewOf } from "leasehold/port";
 *
 * const key = { namespace: "default", resource: "report" };
 * const request = { ...key, leaseId: "a".repeat(48), holder: "web-1", ttlMs: 30_000 };
 * const nowMs = Date.now();
 * const { record } = rules.acquire(null, request, nowMs, (last) => last + 1);
 * if (record) console.log(viewOf(key, record, nowMs, (ms) => new Date(ms).toISOString()).state);
 * ```
 */
export function viewOf(
  { namespace, resource }: Key,
  record: LeaseRecord,
  nowMs: number,
  text: (storeMs: number) => string | null,
): LeaseView {
  const state = stateOf(record, nowMs);
  return {
    namespace,
    resource,
    holder: record.holder,
    grantId: grantIdOf(record.leaseId),
    token: record.token,
    state,
    ttlMs: record.ttlMs,
    remainingMs: state === "live" ? Math.ceil(record.expiresAtMs - nowMs) : 0,
    ...(state === "revoked" &&
      excludes(record, nowMs) && { freeInMs: Math.ceil(record.expiresAtMs - nowMs) }),
    grantedAt: text(record.grantedAtMs),
    renewedAt: record.renewedAtMs === null ? null : text(record.renewedAtMs),
    expiresAt: text(record.expiresAtMs),
    metadata: record.metadata,
  };
}
