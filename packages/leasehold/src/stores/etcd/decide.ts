/**
 * Applies the rules (core/rules.ts) to the state read of a resource. The result is an outcome, or a
 * change whose outcome holds if no other client was faster. A decision with a change may rest on a
 * guess, because the change compares everything it rests on. A decision without one must rest on a
 * read. decide-acquire.ts decides acquires.
 */

import type {
  ReleaseOutcome,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  RevokeOutcome,
  RevokeRequest,
} from "../../core/index.js";
import type { Compare } from "./connection-api.js";
import type { EngineLease } from "./engine-leases.js";
import type { Place } from "./keys.js";
import { type Entry, excludesOthers, type GrantRecord, type Owner } from "./records.js";
import { findWaiter, keysOf, ringing, type Waiter } from "./wait-queue.js";

export interface Change {
  /** The token is 0 if it will be the revision of this change. Null: the record stays as it is. */
  readonly record: GrantRecord | null;
  /** The change to the lock key. */
  readonly lock:
    | { readonly put: string; readonly lease: string; readonly value: string }
    | { readonly deleted: string }
    | "kept";
  /** Further conditions, besides the record and the lock key: the state of the wait queue. */
  readonly given?: readonly Compare[];
  /** Waiters' keys to delete. */
  readonly deleted?: readonly string[];
}
export interface Changing<Outcome> {
  readonly change: Change;
  /** The outcome once the change is made, given its revision. */
  readonly outcomeAt: (revision: number) => Outcome;
}
/** A refused request that waits. */
export interface Refusing<Outcome> {
  /**
   * The waiter to add before the decision, which then rests on a read after it; null if one exists that
   * lasts long enough.
   */
  readonly waiter: {
    readonly ttlMs: number;
    readonly holder: string;
    readonly isAgain: boolean;
  } | null;
  readonly refusal: () => Promise<Outcome>;
}
export type Step<Outcome> = { readonly outcome: Outcome } | Changing<Outcome> | Refusing<Outcome>;

/** The context of a decision. */
export interface Surroundings {
  /** The time of the decisions by the wall clock, for display. */
  readonly wallMs: number;
  /** In ISO 8601. */
  readonly textOf: (wallMs: number) => string;
  readonly monotonicMs: () => number;
  /** Returns an engine lease for a new grant of this duration. */
  readonly take: (ttlMs: number) => Promise<EngineLease>;
  /** Returns a lower bound of an engine lease's remaining time. */
  readonly remainingMs: (lease: string) => Promise<number>;
  /** The same, if it needs no call. */
  readonly knownMs: (lease: string) => number | null;
  /** How long this client has seen the resource free. */
  readonly freeForMs: (place: Place, entry: Entry) => number;
  readonly countBefore: (place: Place, waiter: Waiter) => Promise<number>;
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
  if (record.leaseId !== request.leaseId) return lost("taken");
  if (record.ended) return lost(record.ended === "revoked" ? "revoked" : "gone");
  if (!excludesOthers(entry)) return lost("expired");
  const { owner } = entry;
  const { token } = record;
  const lease = await world.take(request.ttlMs);
  const renewedAt = world.textOf(world.wallMs);
  if (lease.ttlMs < record.ttlMs) {
    const leftMs = await world.remainingMs(owner.lease);
    // Never shortens a grant. The remaining time is known to the second.
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
  const expiresAt = world.textOf(world.wallMs + ttlMs);
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
  const { leaseId } = request;
  if (record?.leaseId !== leaseId) return withdrawn(entry, leaseId, place);
  if (record.ended === "released") return { outcome: { status: "released" } };
  if (!excludesOthers(entry)) return { outcome: { status: "notHeld" } };
  // A holder that has stopped may also release a revoked lease early.
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
  if (!excludesOthers(entry)) return { outcome: { status: "notHeld" } };
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
  // No renewal moves the key to another engine lease any more.
  return {
    change: { record: { ...record, ended: "revoked" }, lock: "kept" },
    outcomeAt: () => outcome,
  };
}

/** A waiter gives up its position. If the resource was reserved for it, this wakes the next one. */
function withdrawn({ waiters, owner }: Entry, leaseId: string, place: Place): Step<ReleaseOutcome> {
  const outcome: ReleaseOutcome = { status: "notHeld" };
  const own = findWaiter(waiters, leaseId);
  if (!own) return { outcome };
  const [first, ...others] = waiters.first;
  const isKept = owner === null && first?.leaseId === leaseId && others.length > 0;
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
    record: { ...record, ended, expiresAt: world.textOf(world.wallMs) },
    lock: { deleted: owner.key },
  };
}

/** The remaining time of a fresh engine lease, in whole milliseconds. */
export function leftOf({ ttlMs, endsMs }: EngineLease, { monotonicMs }: Surroundings): number {
  return Math.max(0, Math.min(ttlMs, Math.floor(endsMs - monotonicMs())));
}
