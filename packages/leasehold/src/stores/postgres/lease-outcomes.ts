/** The values that each lease operation sends, and the meaning of the returned rows. */

import type {
  AcquireOutcome,
  AcquireRequest,
  Key,
  ReleaseOutcome,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  RevokeOutcome,
  RevokeRequest,
} from "../../core/index.js";
import { invariant } from "../../env/index.js";
import type { Sql } from "./connection.js";
import { keyColumns, keyText } from "./keys.js";
import {
  ACQUIRE,
  ACQUIRE_CONTENDED,
  ACQUIRE_OR_WAIT,
  type AcquireRow,
} from "./lease-acquire-statements.js";
import type { LeaseStatement } from "./lease-calls.js";
import { leanAcquire, leanRelease, leanRenew } from "./lease-lean-outcomes.js";
import {
  RELEASE,
  RENEW,
  REVOKE,
  type ReleaseRow,
  type RenewRow,
  type RevokeRow,
} from "./lease-statements.js";
import { safeToken, termOf, viewOf } from "./views.js";

/** Waiters that wait longer are renewed meanwhile; the SQL has its own, smaller bound. */
const LONGEST_QUEUE_MS = 2 ** 31 - 1;

/**
 * @param requests the whole batch: which statement takes it depends on all of them
 * @param returnReplaced whether to return the grants that were replaced
 */
export function acquiring(
  sql: Sql,
  requests: readonly AcquireRequest[],
  returnReplaced: boolean,
): LeaseStatement<AcquireRequest, AcquireOutcome, AcquireRow> {
  const awaited = new Set(requests.filter(({ queueMs }) => queueMs).map(keyText));
  const isAwaited = (request: AcquireRequest) => awaited.has(keyText(request));
  // For the other keys, the outcome of the first request decides the rest without the store.
  const isContended = awaited.size > 0 && requests.filter(isAwaited).length > awaited.size;
  const uncontended = (batch: readonly AcquireRequest[]) =>
    batch.some(({ queueMs }) => queueMs) ? ACQUIRE_OR_WAIT : ACQUIRE;
  return {
    sql,
    ...(isContended && {
      roundOf: (request: AcquireRequest) =>
        isAwaited(request) ? `${keyText(request)}\0${request.leaseId}` : keyText(request),
    }),
    text: isContended ? () => ACQUIRE_CONTENDED : uncontended,
    values: (batch) => [
      ...keyColumns(batch),
      batch.map(({ leaseId }) => leaseId),
      batch.map(({ holder }) => holder),
      batch.map(({ ttlMs }) => ttlMs),
      batch.map(({ queueMs = 0 }) => Math.min(Math.ceil(queueMs), LONGEST_QUEUE_MS)),
      batch.map(({ metadata = null }) => metadata),
    ],
    lean: (batch) => leanAcquire(batch, returnReplaced),
    outcome: acquireOutcome,
    isRepeated: ({ n, status, oldToken }) =>
      status === "acquired" && n !== null && oldToken === null,
  };
}

function acquireOutcome(row: AcquireRow, { namespace, resource }: Key): AcquireOutcome {
  const { status, holder, grantId, remainingMs } = row;
  if (status === "held") {
    const place = row.ahead === null ? {} : { ahead: row.ahead };
    const leftMs = remainingMs === null ? null : Math.ceil(remainingMs);
    return { status, holder, grantId, remainingMs: leftMs, ...place };
  }
  if (status === "ended") return { status };
  invariant(remainingMs !== null, "a grant has an end");
  const granted = { status, token: safeToken(row.token), ...termOf({ ...row, remainingMs }) };
  if (row.oldToken === null || grantId === null) return granted;
  const replaced = viewOf({
    namespace,
    resource,
    holder,
    grantId,
    token: row.oldToken,
    state: row.oldState,
    ttlMs: row.oldTtlMs,
    remainingMs: 0,
    grantedAt: row.oldGrantedAt,
    renewedAt: row.oldRenewedAt,
    expiresAt: row.oldExpiresAt,
    metadata: row.oldMetadata,
  });
  return { ...granted, replaced };
}

export function renewing(sql: Sql): LeaseStatement<RenewRequest, RenewOutcome, RenewRow> {
  return {
    sql,
    text: () => RENEW,
    values: (batch) => [
      ...keyColumns(batch),
      batch.map(({ leaseId }) => leaseId),
      batch.map(({ ttlMs }) => ttlMs),
    ],
    lean: leanRenew,
    outcome: (row) =>
      row.status === "lost"
        ? { status: row.status, reason: row.reason ?? "gone" }
        : { status: row.status, token: safeToken(row.token), ...termOf(row) },
  };
}

export function releasing(sql: Sql): LeaseStatement<ReleaseRequest, ReleaseOutcome, ReleaseRow> {
  return {
    sql,
    text: () => RELEASE,
    values: (batch) => [...keyColumns(batch), batch.map(({ leaseId }) => leaseId)],
    lean: leanRelease,
    outcome: ({ status }) => ({ status }),
  };
}

export function revoking(sql: Sql): LeaseStatement<RevokeRequest, RevokeOutcome, RevokeRow> {
  return {
    sql,
    text: () => REVOKE,
    values: (batch) => [
      ...keyColumns(batch),
      batch.map(({ expectedToken = null }) => expectedToken),
      batch.map(({ free }) => free === "now"),
    ],
    outcome: ({ status, token, freeInMs }) =>
      status === "revoked"
        ? { status, token: safeToken(token), freeInMs: Math.ceil(freeInMs) }
        : { status },
  };
}
