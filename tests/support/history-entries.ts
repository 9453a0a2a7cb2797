/** Entries of one resource's history, for tests: `acquire([sentMs, answeredMs], "A", acquired(1))`. */
import type { HistoryEntry } from "../../packages/leasehold/src/testing/history/entry.js";

export type Window = readonly [invokeMs: number, returnMs: number];
type Told<Name> =
  | (HistoryEntry & { operation: Name; result: "ok" })["outcome"]
  | "unknown"
  | "fail";

export const KEY = { namespace: "default", resource: "r" };
const TTL_MS = 100;

export function entryOf(
  operation: HistoryEntry["operation"],
  [invokeMs, returnMs]: Window,
  request: object,
  told: object | "unknown" | "fail",
): HistoryEntry {
  const common = { client: "c", operation, request: { ...KEY, ...request }, invokeMs };
  const what =
    typeof told === "object"
      ? { returnMs, result: "ok", outcome: told }
      : { returnMs: told === "fail" ? returnMs : null, result: told, outcome: null, error: "lost" };
  return { ...common, ...what } as unknown as HistoryEntry;
}

export const acquire = (window: Window, leaseId: string, told: Told<"acquire">) =>
  entryOf("acquire", window, { leaseId, holder: `holder ${leaseId}`, ttlMs: TTL_MS }, told);
export const renew = (window: Window, leaseId: string, told: Told<"renew">) =>
  entryOf("renew", window, { leaseId, ttlMs: TTL_MS }, told);
export const release = (window: Window, leaseId: string, told: Told<"release">) =>
  entryOf("release", window, { leaseId }, told);
export const revoke = (
  window: Window,
  { free = "now", ...more }: { free?: "now" | "atExpiry"; expectedToken?: number },
  told: Told<"revoke">,
) => entryOf("revoke", window, { free, ...more }, told);

const term = (token: number, remainingMs = TTL_MS) => ({
  token,
  ttlMs: TTL_MS,
  remainingMs,
  expiresAt: null,
});
export const acquired = (token: number, remainingMs?: number) => ({
  status: "acquired" as const,
  ...term(token, remainingMs),
});
export const renewed = (token: number, remainingMs?: number) => ({
  status: "renewed" as const,
  ...term(token, remainingMs),
});
export const held = (leaseId: string, remainingMs: number | null = null) => ({
  status: "held" as const,
  holder: `holder ${leaseId}`,
  grantId: null,
  remainingMs,
});
export const lost = (reason: "expired" | "revoked" | "taken" | "gone") => ({
  status: "lost" as const,
  reason,
});
export const revoked = (token: number, freeInMs = 0) => ({
  status: "revoked" as const,
  token,
  freeInMs,
});
export const released = { status: "released" as const };
export const notHeld = { status: "notHeld" as const };
export const ended = { status: "ended" as const };
