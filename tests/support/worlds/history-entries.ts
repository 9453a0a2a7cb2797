/** Entries of one resource's history, for tests: `acquire([sentMs, answeredMs], "A", acquired(1))`. */
import type { HistoryEntry } from "../../../packages/leasehold/src/testing/history/entry.js";

export type Window = readonly [invokeMs: number, returnMs: number];
type Answer<Name> =
  | (HistoryEntry & { operation: Name; result: "ok" })["outcome"]
  | "unknown"
  | "fail";

export const KEY = { namespace: "default", resource: "r" };
const TTL_MS = 100;

export function entryOf(
  operation: HistoryEntry["operation"],
  [invokeMs, returnMs]: Window,
  request: object,
  answer: object | "unknown" | "fail",
): HistoryEntry {
  const common = { client: "c", operation, request: { ...KEY, ...request }, invokeMs };
  const what =
    typeof answer === "object"
      ? { returnMs, result: "ok", outcome: answer }
      : {
          returnMs: answer === "fail" ? returnMs : null,
          result: answer,
          outcome: null,
          error: "lost",
        };
  return { ...common, ...what } as unknown as HistoryEntry;
}

export const acquire = (window: Window, leaseId: string, answer: Answer<"acquire">) =>
  entryOf("acquire", window, { leaseId, holder: `holder ${leaseId}`, ttlMs: TTL_MS }, answer);
export const renew = (window: Window, leaseId: string, answer: Answer<"renew">) =>
  entryOf("renew", window, { leaseId, ttlMs: TTL_MS }, answer);
export const release = (window: Window, leaseId: string, answer: Answer<"release">) =>
  entryOf("release", window, { leaseId }, answer);
export const revoke = (
  window: Window,
  { free = "now", ...more }: { free?: "now" | "atExpiry"; expectedToken?: number },
  answer: Answer<"revoke">,
) => entryOf("revoke", window, { free, ...more }, answer);

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
