/**
 * Applies the rules (core/rules.ts) to the state read of a resource. The result is an outcome, or a change
 * whose outcome holds if no other client was faster. A decision with a change may rest on a guess, because
 * the change compares everything it rests on. A decision without one must rest on a read.
 * decide-acquire.ts decides acquires.
 */

import type {
  Grant,
  ReleaseOutcome,
  RenewOutcome,
  RenewRequest,
  RevokeOutcome,
  RevokeRequest,
} from "../../core/index.js";
import type { Operation } from "./connection-api.js";
import { identityOf, type Place } from "./keys.js";
import { isOver, type OwnGrant } from "./own-grants.js";
import {
  type Entry,
  encodeRecord,
  excludesOthers,
  type GrantRecord,
  type Owner,
} from "./records.js";
import { positionOf, withoutWaiters } from "./wait-queue.js";

/** Operations that apply together, if all their conditions hold. */
export interface Change {
  readonly operations: readonly Operation[];
  /** The state after the change; null: the change reads it, and wakes the head of the queue if the resource is free. */
  readonly entryAt: ((index: number) => Entry) | null;
  /** Called if the change may have been applied. */
  readonly inDoubt?: () => void;
}
export interface Changing<Outcome> {
  readonly change: Change;
  /** The outcome once the change is made, given its index; null: decide again on the state after it. */
  readonly outcomeAt: ((index: number) => Outcome) | null;
}
export type Step<Outcome> = { readonly outcome: Outcome } | Changing<Outcome>;

/** The context of a decision. */
export interface Surroundings {
  /** The session of this client; empty if it has none. */
  readonly session: string;
  /** When the call began, by the monotonic clock. */
  readonly sentMs: number;
  readonly monotonicMs: () => number;
  readonly wallText: () => string;
  /** How long the session surely lasts from the beginning of the call. */
  readonly sessionMs: () => number;
  /** A grant of this client. */
  readonly own: (place: Place, identity: string) => OwnGrant | undefined;
  /** Tracks a grant of this client until it ends it. */
  readonly granted: (place: Place, grant: Grant, untilMs: number) => void;
  /** Tracks a grant that may be made, now or late. */
  readonly doubted: (place: Place, grant: Grant, untilMs: number) => void;
  readonly forget: (place: Place, grant: Grant) => void;
  /** Tracks the waiter of this client for `queueMs`. */
  readonly waits: (place: Place, grant: Grant, queueMs: number) => void;
  /** Called with each state that was read. */
  readonly seen: (place: Place, entry: Entry) => void;
  /** How long this client has seen the resource free. */
  readonly freeForMs: (place: Place, entry: Entry) => number;
}

export type Excluding = Entry & { readonly record: GrantRecord; readonly owner: Owner };

/**
 * Reads only: the session keeps the lock, and this client ends the grant. Its expiry was already extended, so
 * that it does not end meanwhile.
 */
export function renew(
  entry: Entry,
  request: RenewRequest,
  world: Surroundings,
  place: Place,
): Step<RenewOutcome> {
  const { record, owner } = entry;
  const own = world.own(place, identityOf(request.leaseId));
  const lost = (reason: "expired" | "revoked" | "taken" | "gone"): Step<RenewOutcome> => {
    return { outcome: { status: "lost", reason } };
  };
  if (!record) return lost("gone");
  if (record.identity !== identityOf(request.leaseId)) return lost("taken");
  if (record.ended) return lost(record.ended === "released" ? "gone" : record.ended);
  if (!excludesOthers(entry)) {
    if (owner) return lost("taken");
    // Its session has ended, or an operator deleted its key: the holder must learn of that before the expiry.
    return lost(own && own.untilMs > world.monotonicMs() ? "gone" : "expired");
  }
  // The grant belongs to another client that knows this lease id; only that client keeps it alive.
  if (owner?.session !== world.session) return lost("gone");
  // Its time is over, and this client is about to end it.
  if (!own || isOver(own, world.sentMs)) return lost("expired");
  const { token } = record;
  const outcomeNow = (): RenewOutcome => {
    const leftMs = Math.min(own.untilMs - world.sentMs, world.sessionMs());
    const remainingMs = Math.max(0, Math.floor(leftMs));
    return { status: "renewed", token, ttlMs: request.ttlMs, remainingMs, expiresAt: null };
  };
  if (request.ttlMs <= record.ttlMs) return { outcome: outcomeNow() };
  // The record says how long others may have to wait.
  const longer = { ...record, ttlMs: request.ttlMs };
  return {
    change: {
      operations: [held(place, owner), put(place, entry, longer)],
      entryAt: (index) => ({ ...entry, record: longer, recordIndex: index }),
    },
    outcomeAt: outcomeNow,
  };
}

export function release(
  entry: Entry,
  grant: Grant,
  world: Surroundings,
  place: Place,
): Step<ReleaseOutcome> {
  const { record } = entry;
  if (record?.identity !== identityOf(grant.leaseId)) return withdraw(entry, grant, world, place);
  if (record.ended === "released") return { outcome: { status: "released" } };
  if (!excludesOthers(entry) || entry.owner.session !== world.session) {
    return { outcome: { status: "notHeld" } };
  }
  // A holder that has stopped may also release a revoked lease early.
  return {
    change: ending(entry, "released", world, place),
    outcomeAt: () => {
      world.forget(place, grant);
      return { status: "released" };
    },
  };
}

/** Ends a grant of this client whose TTL is over, or one that was made after its caller had given up. */
export function expire(
  entry: Entry,
  grant: Grant,
  world: Surroundings,
  place: Place,
): Step<ReleaseOutcome> {
  const isMine = entry.record?.identity === identityOf(grant.leaseId);
  if (!isMine || !excludesOthers(entry) || entry.owner.session !== world.session) {
    return { outcome: { status: "notHeld" } };
  }
  const change = ending(entry, "expired", world, place);
  return { change, outcomeAt: () => ({ status: "released" }) };
}

export function revoke(
  entry: Entry,
  request: RevokeRequest,
  world: Surroundings,
  place: Place,
): Step<RevokeOutcome> {
  if (!excludesOthers(entry)) return { outcome: { status: "notHeld" } };
  const { record, owner } = entry;
  const { token } = record;
  if (request.expectedToken !== undefined && request.expectedToken !== token) {
    return { outcome: { status: "otherToken" } };
  }
  if (request.free === "now") {
    return {
      change: ending(entry, "revoked", world, place),
      outcomeAt: () => ({ status: "revoked", token, freeInMs: 0 }),
    };
  }
  // Its holder's client frees it at its expiry, which only that client knows.
  const leftMs = leftOf(entry, world, place) ?? record.ttlMs;
  const outcome: RevokeOutcome = { status: "revoked", token, freeInMs: leftMs };
  if (record.ended) return { outcome };
  const revoked = { ...record, ended: "revoked", endedAt: world.wallText() } as const;
  return {
    change: {
      operations: [held(place, owner), put(place, entry, revoked)],
      entryAt: (index) => ({ ...entry, record: revoked, recordIndex: index }),
    },
    outcomeAt: () => outcome,
  };
}

/** Removes the waiter of a request that has given up, if there is one. */
export function withdraw(
  entry: Entry,
  grant: Grant,
  { session }: Surroundings,
  place: Place,
): Step<ReleaseOutcome> {
  const outcome: ReleaseOutcome = { status: "notHeld" };
  const { own } = positionOf(entry, grant.leaseId);
  if (own?.session !== session) return { outcome };
  const operations = withoutWaiters(place, [own]);
  return { change: { operations, entryAt: null }, outcomeAt: () => outcome };
}

/** A `delete-cas` of a missing key succeeds, so the session of the lock key is compared too. */
function ending(
  entry: Excluding,
  state: Exclude<GrantRecord["ended"], null>,
  world: Surroundings,
  place: Place,
): Change {
  const { record, owner } = entry;
  // What an operator has revoked stays revoked when its time is over.
  const ended = state === "expired" ? (record.ended ?? state) : state;
  const renewedAt = world.own(place, record.identity)?.renewedAt ?? record.renewedAt;
  const endedAt = world.wallText();
  return {
    operations: [
      held(place, owner),
      { verb: "delete-cas", key: place.lock, index: owner.index },
      put(place, entry, { ...record, renewedAt, ended, endedAt }),
    ],
    entryAt: null,
  };
}

/** What is left of a live grant, if it is one of this client. */
export function leftOf({ record }: Excluding, world: Surroundings, place: Place): number | null {
  const own = world.own(place, record.identity);
  if (!own || own.lateUntilMs !== null) return null;
  return Math.min(record.ttlMs, Math.max(1, Math.ceil(own.untilMs - world.monotonicMs())));
}

function held({ lock }: Place, { session }: Owner): Operation {
  return { verb: "check-session", key: lock, session };
}

/** Replaces the record, if it is as it was read. */
export function put(place: Place, { recordIndex }: Entry, record: GrantRecord): Operation {
  return { verb: "cas", key: place.record, index: recordIndex, value: encodeRecord(record) };
}
