/** How keys of leases are loaded. No rule is stated here: store-kit/ decides on what this reads. */
import { invariant } from "../../env/index.js";
import type { LeaseRecord } from "../../lease/index.js";
import {
  EMPTY_QUEUE,
  type KeyToLoad,
  type Loaded,
  type LoadedKeys,
} from "../../store-kit/index.js";
import { refusedOutcome } from "./failures.js";
import type { Keys } from "./keys.js";

/** What tells one state of a record from another, also of one that was collected. */
export type Version = string;

type Field = string | number | null | undefined;
/** A key as a script has loaded it (see scripts.ts). */
export type Fields = readonly Field[];

/** The keys and arguments of the script that loads, and the meaning of its reply. */
export function loading(keys: Keys, asked: readonly KeyToLoad[], needsQueue: boolean) {
  const places = needsQueue
    ? asked.flatMap((key) => [keys.record(key), keys.queue(key)])
    : asked.map((key) => keys.record(key));
  return {
    places,
    args: needsQueue ? asked.map(({ leaseIds }) => leaseIds.join(",")) : [],
    loadedOf: (reply: unknown): LoadedKeys<Version> => {
      invariant(Array.isArray(reply) && reply.length === asked.length + 1, "a reply per key");
      const [nowUs, ...each] = reply as [number, ...(Fields | Error)[]];
      const loadedAt = (fields: Fields | Error) =>
        fields instanceof Error ? refusedOutcome(fields.message) : loadedOf(fields, nowUs);
      return { nowMs: nowUs / 1_000, keys: each.map(loadedAt) };
    },
  };
}

export function loadedOf(fields: Fields, nowUs: number): Loaded<Version> {
  const [, , token] = fields;
  return {
    record: recordOf(fields),
    version: versionOf(fields),
    isPaused: false,
    // Nothing else remembers the tokens of records that have expired.
    leastToken: Math.max(nowUs, Number(token ?? 0) + 1),
    queue: queueOf(fields, nowUs),
  };
}

export function recordOf(fields: Fields): LeaseRecord | null {
  const [leaseId, holder, token, ttlMs, grantedAt, renewedAt, expiresAt, ended, metadata] = fields;
  if (!leaseId) return null;
  return {
    leaseId: String(leaseId),
    holder: String(holder),
    token: Number(token),
    ttlMs: Number(ttlMs),
    grantedAtMs: Number(grantedAt) / 1_000,
    renewedAtMs: renewedAt ? Number(renewedAt) / 1_000 : null,
    expiresAtMs: Number(expiresAt) / 1_000,
    ended: (ended || null) as LeaseRecord["ended"],
    metadata: JSON.parse(String(metadata ?? null)) as string | null,
  };
}

/** Two states of a record that have the same version are the same. */
function versionOf(fields: Fields): Version {
  const [leaseId, , token, , , renewedAt, expiresAt, ended] = fields;
  return [leaseId, token, expiresAt, ended, renewedAt].map((field) => field ?? "").join(",");
}

function queueOf(fields: Fields, nowUs: number): Loaded<Version>["queue"] {
  const [, , , , , , , , , waitedUntil, waiters, firstHolder, ...own] = fields;
  if (Number(waitedUntil) <= nowUs) return EMPTY_QUEUE;
  if (waiters === undefined) return null;
  const positions = new Map<string, { ahead: number; expiresAtMs: number }>();
  for (let at = 0; at < own.length; at += 3) {
    const expiresAtMs = Number(own[at + 2]) / 1_000;
    positions.set(String(own[at]), { ahead: Number(own[at + 1]), expiresAtMs });
  }
  return { count: Number(waiters), firstHolder: String(firstHolder), positions };
}
