/** Views of leases: read-only statements, and their rows as views. */

import { invariant, isoTime } from "../../env/index.js";
import type { LeaseState, LeaseView } from "../../lease/index.js";
import { CLOCK, epochMs, excludes, isLive, KEY, untilMs } from "./lease-rows.js";
import { afterMs, grantId, SAME_KEY, unnested } from "./sql-parts.js";

export interface ViewRow {
  readonly namespace: string;
  readonly resource: string;
  readonly holder: string;
  readonly grantId: string;
  readonly token: number;
  readonly state: LeaseState;
  readonly ttlMs: number;
  readonly remainingMs: number;
  /** Null: the grant does not exclude others, or is live. Absent in rows of grants that were replaced. */
  readonly freeInMs?: number | null;
  readonly grantedAt: number;
  readonly renewedAt: number | null;
  readonly expiresAt: number;
  readonly metadata: string | null;
}

const STATE = `CASE WHEN ${isLive("l")} THEN 'live' ELSE coalesce(l.ended, 'expired') END`;
const VIEW = `l.namespace, l.resource, l.holder, ${grantId("l")} AS "grantId", l.token,
  ${STATE} AS state,
  l.ttl_ms AS "ttlMs", CASE WHEN ${isLive("l")} THEN ${untilMs("l.expires_at")} ELSE 0 END AS "remainingMs",
  CASE WHEN l.ended = 'revoked' AND ${excludes("l")} THEN ${untilMs("l.expires_at")} END AS "freeInMs",
  ${epochMs("l.granted_at")} AS "grantedAt", ${epochMs("l.renewed_at")} AS "renewedAt",
  ${epochMs("l.expires_at")} AS "expiresAt", l.metadata`;

/** Excludes the row of a resource that was paused before it was ever leased. */
const WAS_GRANTED = "l.lease_id <> ''";

/** Values: namespaces, resources. One row per key that has a record, with its number from 1. */
export const GET = `
WITH ${CLOCK}
SELECT i.n::int AS n, ${VIEW} FROM ${unnested(KEY)} CROSS JOIN clock c CROSS JOIN LATERAL (
  SELECT l.* FROM leasehold.lease l WHERE ${SAME_KEY("l", "i")} OFFSET 0
) l WHERE ${WAS_GRANTED}`;

/**
 * Values: namespace, first resource, end of the range (null: none), cursor, states (null: any), renewed
 * only, limit; holder, expiringWithinMs, heldForMs (null: any).
 */
export const LIST = `
WITH ${CLOCK}
SELECT ${VIEW} FROM leasehold.lease l CROSS JOIN clock c
WHERE l.namespace = $1 AND l.resource >= $2 AND ($3::text IS NULL OR l.resource < $3)
  AND l.resource > $4 AND ($5::text[] IS NULL OR ${STATE} = ANY ($5))
  AND (NOT $6::bool OR l.renewed_at IS NOT NULL) AND ${WAS_GRANTED}
  AND ($8::text IS NULL OR l.holder = $8)
  AND ($9::float8 IS NULL OR (${isLive("l")} AND l.expires_at <= ${afterMs("$9::float8")}))
  AND ($10::float8 IS NULL OR (${isLive("l")} AND l.granted_at <= ${afterMs("-($10::float8)")}))
ORDER BY l.resource
LIMIT $7::int`;

export function viewOf({ freeInMs, ...row }: ViewRow): LeaseView {
  return {
    ...row,
    ...(typeof freeInMs === "number" && { freeInMs: Math.ceil(freeInMs) }),
    token: safeToken(row.token),
    remainingMs: Math.ceil(row.remainingMs),
    grantedAt: isoOf(row.grantedAt),
    renewedAt: row.renewedAt === null ? null : isoOf(row.renewedAt),
    expiresAt: isoOf(row.expiresAt),
  };
}

/** Rounds down, so that the holder stops early rather than late. */
export function termOf({
  ttlMs,
  remainingMs,
  expiresAt,
}: Pick<ViewRow, "ttlMs" | "remainingMs" | "expiresAt">) {
  return { ttlMs, remainingMs: Math.floor(remainingMs), expiresAt: isoOf(expiresAt) };
}

/**
 * Truncates to milliseconds; stored times are exact to the microsecond, which a float cannot represent.
 */
export function isoOf(epochMs: number): string {
  return isoTime(Math.floor(epochMs + 0.0005));
}

export function safeToken(token: number): number {
  invariant(Number.isSafeInteger(token) && token > 0, `token ${token} is a safe integer`);
  return token;
}
