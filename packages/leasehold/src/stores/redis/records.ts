/** Decodes script replies: outcomes of acquires, durations, and views of records. */

import type { AcquireOutcome, AcquireRequest, Key, LeaseView, Term } from "../../core/index.js";
import { grantIdOf, invariant, isoTime } from "../../env/index.js";
import type { Reply, Texts } from "./scripts-call.js";

export function acquireOutcome(
  request: AcquireRequest,
  reply: Reply,
  nowUs: number,
): AcquireOutcome {
  if (typeof reply === "number") return granted(request, nowUs + reply, nowUs);
  const [status, ...rest] = reply;
  if (status === "replaced") {
    const [token, before] = rest;
    const replaced = viewOf(request, before as readonly string[], nowUs);
    return { ...granted(request, tokenOf(token), nowUs), ...(replaced && { replaced }) };
  }
  if (status === "acquired") return { status, token: tokenOf(rest[0]), ...termOf(rest) };
  if (status === "held") {
    const [holder = "", leaseId = "", leftUs, ahead] = rest as readonly string[];
    const remainingMs = Math.ceil(Number(leftUs) / 1_000);
    const grantId = leaseId === "" ? null : grantIdOf(leaseId);
    const place = ahead ? { ahead: Number(ahead) } : {};
    return { status, holder, grantId, remainingMs, ...place };
  }
  return { status: "ended" };
}

/** A new grant, made by this request. */
export function granted({ ttlMs }: AcquireRequest, token: number, nowUs: number) {
  const expiresAt = timeOf(nowUs + ttlMs * 1_000);
  return {
    status: "acquired" as const,
    token: tokenOf(token),
    ttlMs,
    remainingMs: ttlMs,
    expiresAt,
  };
}

/** Rounds down, so that the holder stops early rather than late. */
export function termOf([, ttlMs, leftUs, expiresAtUs]: Texts): Term {
  const remainingMs = Math.floor(Number(leftUs) / 1_000);
  return { ttlMs: Number(ttlMs), remainingMs, expiresAt: timeOf(Number(expiresAtUs)) };
}

export function tokenOf(text: number | Texts[number] | undefined): number {
  const token = Number(text);
  invariant(Number.isSafeInteger(token) && token > 0, `token ${token} is a safe integer`);
  return token;
}

/** Formats microseconds since 1970 as ISO 8601. */
function timeOf(us: number): string {
  return isoTime(Math.floor(us / 1_000));
}

/**
 * @param view the `view` fields of a reply; empty if there is no record
 */
export function viewOf(
  { namespace, resource }: Key,
  view: readonly string[],
  nowUs: number,
): LeaseView | null {
  const [leaseId, holder = "", token, ttlMs, grantedAt = "", renewedAt, expiresAt = "", ended] =
    view;
  if (leaseId === undefined) return null;
  const live = ended === "" && nowUs < Number(expiresAt);
  const leftMs = Math.ceil((Number(expiresAt) - nowUs) / 1_000);
  return {
    namespace,
    resource,
    holder,
    grantId: grantIdOf(leaseId),
    token: tokenOf(token),
    state: live ? "live" : ended === "" ? "expired" : (ended as "released" | "revoked"),
    ttlMs: Number(ttlMs),
    remainingMs: live ? leftMs : 0,
    ...(ended === "revoked" && leftMs > 0 && { freeInMs: leftMs }),
    grantedAt: timeOf(Number(grantedAt)),
    renewedAt: renewedAt ? timeOf(Number(renewedAt)) : null,
    expiresAt: timeOf(Number(expiresAt)),
    metadata: JSON.parse(view[8] ?? "null") as string | null,
  };
}
