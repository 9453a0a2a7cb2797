/** The values that the lean statements take, and what their rows decide. */
import type {
  AcquireOutcome,
  AcquireRequest,
  Grant,
  ReleaseOutcome,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
} from "../../core/index.js";
import { invariant } from "../../env/index.js";
import { type LeanStatement, listOf } from "./lean-statement.js";
import {
  ACQUIRE_FREE,
  type FreeRow,
  type LiveRow,
  RELEASE_HELD,
  RENEW_LIVE,
  type ReleasedRow,
} from "./lease-lean-statements.js";
import { safeToken, termOf } from "./views.js";

/** Null unless the requests differ in their resources and lease ids alone, and none waits. */
export function leanAcquire(
  batch: readonly AcquireRequest[],
): LeanStatement<AcquireOutcome> | null {
  const [first] = batch;
  if (!first) return null;
  const { namespace, holder, ttlMs, metadata = null } = first;
  for (const request of batch) {
    if (request.queueMs || request.namespace !== namespace || request.holder !== holder)
      return null;
    if (request.ttlMs !== ttlMs || (request.metadata ?? null) !== metadata) return null;
  }
  return {
    text: ACQUIRE_FREE,
    values: [namespace, holder, ttlMs, metadata, ...columns(batch)],
    outcomes(row) {
      const { token, now, granted, created, names } = row as unknown as FreeRow;
      const outcomes = new Array<AcquireOutcome | null>(batch.length).fill(null);
      const term = termOf({ ttlMs, remainingMs: ttlMs, expiresAt: now + ttlMs });
      const grant = (at: number, token: number) => {
        invariant(at >= 0 && at < outcomes.length, "grants of requests");
        const { remainingMs, expiresAt } = term;
        outcomes[at] = {
          status: "acquired",
          token: safeToken(token),
          ttlMs,
          remainingMs,
          expiresAt,
        };
      };
      for (const text of listOf(granted)) {
        const [n, own] = text.split(":");
        grant(Number(n) - 1, own === undefined ? token : Number(own));
      }
      for (const text of listOf(created)) grant(Number(text) - 1, token);
      for (const name of names === null ? [] : (JSON.parse(names) as string[])) {
        grant(
          batch.findIndex(({ resource }) => resource === name),
          token,
        );
      }
      return outcomes;
    },
  };
}

/** Null unless the requests differ in their resources and lease ids alone. */
export function leanRenew(batch: readonly RenewRequest[]): LeanStatement<RenewOutcome> | null {
  const [first] = batch;
  if (!first) return null;
  const { namespace, ttlMs } = first;
  for (const request of batch) {
    if (request.namespace !== namespace || request.ttlMs !== ttlMs) return null;
  }
  return {
    text: RENEW_LIVE,
    values: [namespace, ttlMs, ...columns(batch)],
    outcomes(row) {
      const { now, renewed } = row as unknown as LiveRow;
      const outcomes = new Array<RenewOutcome | null>(batch.length).fill(null);
      const term = termOf({ ttlMs, remainingMs: ttlMs, expiresAt: now + ttlMs });
      for (const text of listOf(renewed)) {
        const [n, token, longerMs] = text.split(":");
        const remainingMs = Number(longerMs);
        const own =
          longerMs === undefined
            ? term
            : termOf({ ttlMs, remainingMs, expiresAt: now + remainingMs });
        outcomes[Number(n) - 1] = {
          status: "renewed",
          token: safeToken(Number(token)),
          ttlMs,
          remainingMs: own.remainingMs,
          expiresAt: own.expiresAt,
        };
      }
      return outcomes;
    },
  };
}

/** Null unless the requests are of one namespace. */
export function leanRelease(
  batch: readonly ReleaseRequest[],
): LeanStatement<ReleaseOutcome> | null {
  const [first] = batch;
  if (!first) return null;
  const { namespace } = first;
  for (const request of batch) if (request.namespace !== namespace) return null;
  return {
    text: RELEASE_HELD,
    values: [namespace, ...columns(batch)],
    outcomes(row) {
      const { released } = row as unknown as ReleasedRow;
      const outcomes = new Array<ReleaseOutcome | null>(batch.length).fill(null);
      for (const n of listOf(released)) outcomes[Number(n) - 1] = { status: "released" };
      return outcomes;
    },
  };
}

function columns(batch: readonly Grant[]): [resources: string[], leaseIds: string[]] {
  return [batch.map(({ resource }) => resource), batch.map(({ leaseId }) => leaseId)];
}
