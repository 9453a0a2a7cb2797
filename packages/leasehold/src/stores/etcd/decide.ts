/**
 * The rules (core/rules.ts) over what is read of a resource: an outcome, or a change and the outcome
 * that it has if nobody was faster. What is decided with a change may rest on a guess, because the
 * change compares all that it rests on; what is decided without one must have been read.
 * decide-acquire.ts has the decision on an acquire.
 */

import type {
  ReleaseOutcome,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  RevokeOutcome,
  RevokeRequest,
} from "../../core/index.js";
import { grantIdOf } from "../../env/index.js";
import type { Compare } from "./connection-api.js";
import type { EngineLease } from "./engine-leases.js";
import type { Place } from "./keys.js";
import { type Entry, type GrantRecord, type Owner, stands } from "./records.js";
import { keysOf, ringing, ticketOf, type Waiter } from "./wait-queue.js";

export interface Change {
  /** Its token is 0 where it is that of the revision to come. Null: it stays as it is. */
  readonly record: GrantRecord | null;
  /** What becomes of the lock key. */
  readonly lock:
    | { readonly put: string; readonly lease: string; readonly value: string }
    | { readonly deleted: string }
    | "kept";
  /** What it rests on, beside the record and the lock key: who waits. */
  readonly given?: readonly Compare[];
  /** Keys of those who wait. */
  readonly deleted?: readonly string[];
}
export interface Changing<Outcome> {
  readonly change: Change;
  /** Once it has been made, in the revision that it has made. */
  readonly outcomeAt: (revision: number) => Outcome;
}
/** Somebody waits, and is refused. */
export interface Refusing<Outcome> {
  /** To be left before it is said, and what is read then decides; null if there is one that lasts. */
  readonly ticket: {
    readonly ttlMs: number;
    readonly holder: string;
    readonly isAgain: boolean;
  } | null;
  readonly refusal: () => Promise<Outcome>;
}
export type Step<Outcome> = { readonly outcome: Outcome } | Changing<Outcome> | Refusing<Outcome>;

/** What deciding needs of the world. */
export interface Surroundings {
  readonly wallMs: () => number;
  readonly monotonicMs: () => number;
  /** An engine lease for a new term of so long. */
  readonly take: (ttlMs: number) => Promise<EngineLease>;
  /** What is left of an engine lease, at least. */
  readonly remainingMs: (lease: string) => Promise<number>;
  /** The same, if it costs nothing to say. */
  readonly knownMs: (lease: string) => number | null;
  /** For how long we have seen that nobody holds it. */
  readonly freeForMs: (place: Place, entry: Entry) => number;
  readonly countBefore: (place: Place, ticket: Waiter) => Promise<number>;
}

export async function renew(
  entry: Entry,
  request: RenewRequest,
  world: Surroundings,
): Promise<Step<RenewOutcome>> {
  const { record } = entry;
  const lost = (reason: "expired" | "revoked" | "taken" | "gone"): Step<RenewOutcome> => ({
    outcome: { status: "lost", reason },
  });
  if (!record) return lost("gone");
  if (record.grantId !== grantIdOf(request.leaseId)) return lost("taken");
  if (record.ended) return lost(record.ended === "revoked" ? "revoked" : "gone");
  if (!stands(entry)) return lost("expired");
  const { owner } = entry;
  const { token } = record;
  const lease = await world.take(request.ttlMs);
  const renewedAt = textOf(world.wallMs());
  if (lease.ttlMs < record.ttlMs) {
    const leftMs = await world.remainingMs(owner.lease);
    // Never earlier than promised. What is left is known to the second.
    if (lease.endsMs - world.monotonicMs() < leftMs + 1_000) {
      const { ttlMs } = record;
      const remainingMs = Math.min(ttlMs, leftMs);
      return {
        change: { record: { ...record, renewedAt }, lock: "kept" },
        outcomeAt: () => ({ status: "renewed", token, ttlMs, remainingMs, expiresAt: null }),
      };
    }
  }
  const { ttlMs } = lease;
  const expiresAt = textOf(world.wallMs() + ttlMs);
  return {
    change: {
      record: { ...record, ttlMs, renewedAt, expiresAt },
      lock: { put: owner.key, lease: lease.id, value: owner.value },
    },
    outcomeAt: () => ({
      status: "renewed",
      token,
      ttlMs,
      remainingMs: leftOf(lease, world),
      expiresAt: null,
    }),
  };
}

export async function release(
  entry: Entry,
  request: ReleaseRequest,
  world: Surroundings,
  place: Place,
): Promise<Step<ReleaseOutcome>> {
  const { record } = entry;
  const grantId = grantIdOf(request.leaseId);
  if (record?.grantId !== grantId) return withdrawn(entry, grantId, place);
  if (record.ended === "released") return { outcome: { status: "released" } };
  if (!stands(entry)) return { outcome: { status: "notHeld" } };
  // A holder may also hand back early what an operator has revoked: it has stopped.
  return {
    change: ending(entry, "released", world, place),
    outcomeAt: () => ({ status: "released" }),
  };
}

export async function revoke(
  entry: Entry,
  request: RevokeRequest,
  world: Surroundings,
  place: Place,
): Promise<Step<RevokeOutcome>> {
  if (!stands(entry)) return { outcome: { status: "notHeld" } };
  const { record, owner } = entry;
  const { token, ttlMs } = record;
  if (request.expectedToken !== undefined && request.expectedToken !== token) {
    return { outcome: { status: "otherToken" } };
  }
  if (request.free === "now") {
    return {
      change: ending(entry, "revoked", world, place),
      outcomeAt: () => ({ status: "revoked", token, freeInMs: 0 }),
    };
  }
  const leftMs = Math.ceil(Math.min(ttlMs, await world.remainingMs(owner.lease)));
  const outcome: RevokeOutcome = { status: "revoked", token, freeInMs: leftMs };
  if (record.ended) return { outcome };
  // Nobody moves its key to another engine lease any more.
  return {
    change: { record: { ...record, ended: "revoked" }, lock: "kept" },
    outcomeAt: () => outcome,
  };
}

/** A waiter gives its place up. If the resource was kept for it, the next one is told. */
function withdrawn({ waiters, owner }: Entry, grantId: string, place: Place): Step<ReleaseOutcome> {
  const outcome: ReleaseOutcome = { status: "notHeld" };
  const own = ticketOf(waiters, grantId);
  if (!own) return { outcome };
  const [first, ...others] = waiters.first;
  const isKept = owner === null && first?.grantId === grantId && others.length > 0;
  const { given = [], deleted = [] } = isKept ? ringing(place, { ...waiters, first: others }) : {};
  return {
    change: {
      record: null,
      lock: "kept",
      given,
      deleted: [...keysOf(place, own), ...deleted],
    },
    outcomeAt: () => outcome,
  };
}

function ending(
  { record, owner, waiters }: Entry & { record: GrantRecord; owner: Owner },
  ended: "released" | "revoked",
  world: Surroundings,
  place: Place,
): Change {
  return {
    ...ringing(place, waiters),
    record: { ...record, ended, expiresAt: textOf(world.wallMs()) },
    lock: { deleted: owner.key },
  };
}

/** What is left of an engine lease that was just taken, in whole milliseconds. */
export function leftOf({ ttlMs, endsMs }: EngineLease, { monotonicMs }: Surroundings): number {
  return Math.max(0, Math.min(ttlMs, Math.floor(endsMs - monotonicMs())));
}

export function textOf(wallMs: number): string {
  return new Date(wallMs).toISOString();
}
