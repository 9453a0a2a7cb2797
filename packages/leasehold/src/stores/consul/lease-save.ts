/**
 * What the rules have decided of a resource, as one transaction. It compares the lock key and the record with what was read, so it
 * fails where another client was faster:
 *
 *   granted                 locks the key if it is not there; writes the record
 *   repeated                looks whether the grant is still there, where this client does not know
 *   renewed                 writes the record if the TTL is longer; else the session keeps the lock, and this client ends it later
 *   released, revoked now   deletes the key if it has the token; writes the record; reads the queue
 *   revoked at expiry       writes the record, so that the next renewal finds another one
 *   refused, and waits      locks a waiter, and reads: this read decides
 */
import type { LeaseRecord, QueuedWaiter } from "../../core/index.js";
import { chunked, grantIdOf } from "../../env/index.js";
import type { Change, SaveResult } from "../../store-kit/index.js";
import type { Operation } from "./connection-api.js";
import { identityOf, type Place } from "./keys.js";
import { type Call, isDoubted, isOwnOver, type Version } from "./lease-load.js";
import { type Entry, encodeRecord, type GrantRecord, type Owner, type Waiter } from "./records.js";
import type { Writing } from "./transactions.js";
import { addWaiter, served, waiterIn, withoutWaiters } from "./wait-queue.js";

/** Consul limits the operations of a transaction. */
const MOST_LEAVING = 16;

export interface Sending extends Writing {
  /** The state after it; absent: it is read in the same transaction. */
  readonly entryAt?: (index: number) => Entry;
  /** Once it is applied, given its index; null: what was read decides. */
  readonly result: ((index: number) => SaveResult<Version>) | null;
  /** Called if it may have been applied. */
  readonly inDoubt?: () => void;
}

interface Decided {
  readonly change: Change<Version>;
  readonly place: Place;
  readonly call: Call;
  /** The waiters that leave. */
  readonly gone: readonly Waiter[];
  /** Deletes those, and adds one. */
  readonly queue: readonly Operation[];
  readonly adds: boolean;
}

/** Waiters that are not there. One that is there stays for longer, which only this client knows. */
export function addedBy({ joins, version }: Change<Version>, session: string): QueuedWaiter[] {
  return joins.filter((one) => waiterIn(version.entry, one.leaseId)?.session !== session);
}

/** Where more waiters leave than a transaction has room for, the rest leaves before. */
export function leavingBefore({ withdrawn, version }: Change<Version>, place: Place): Writing[] {
  return chunked(withdrawn.slice(MOST_LEAVING), MOST_LEAVING).map((some) => {
    const gone = some.flatMap((leaseId) => waiterIn(version.entry, leaseId) ?? []);
    return { place, operations: withoutWaiters(place, gone) };
  });
}

/** What is to be sent of a change, or its result where that is nothing. Of the waiters that it adds, this adds the last one. */
export function sendingOf(
  change: Change<Version>,
  place: Place,
  call: Call,
): Sending | SaveResult<Version> {
  const { record, version, changesGrant, withdrawn } = change;
  const added = addedBy(change, call.session).slice(-1);
  const left = withdrawn
    .slice(0, MOST_LEAVING)
    .flatMap((leaseId) => waiterIn(version.entry, leaseId) ?? []);
  const gone = [...served(version.entry, change.served), ...left];
  const adding = added.map((waiter) => addWaiter(place, waiter, call.session));
  const queue = [...withoutWaiters(place, gone), ...adding];
  const decided = { change, place, call, gone, queue, adds: adding.length > 0 };
  if (record === null) {
    if (queue.length === 0 && !change.wakes) return true;
    return { place, operations: queue, result: decided.adds ? null : () => true };
  }
  if (!changesGrant) return granting(decided, record);
  if (record === version.record) return repeating(decided, record);
  if (record.ended === null) return renewing(decided, record);
  if (record.ended === "revoked" && record.expiresAtMs > call.sentMs) return revoking(decided);
  return ending(decided, record);
}

function granting(
  { change, place, call, gone, queue, adds }: Decided,
  { leaseId, holder, ttlMs, metadata }: LeaseRecord,
): Sending {
  const { entry } = change.version;
  const { session, clock, own } = call;
  const granted: GrantRecord = {
    identity: identityOf(leaseId),
    grantId: grantIdOf(leaseId),
    holder,
    token: 0,
    ttlMs,
    grantedAt: wallText(call),
    renewedAt: null,
    ended: null,
    endedAt: null,
    metadata,
  };
  const entryAt = (index: number): Entry => ({
    record: { ...granted, token: index },
    recordIndex: index,
    owner: { session, index, value: holder },
    leftIndex: 0,
    waiters: entry.waiters.filter((one) => !gone.includes(one)),
  });
  return {
    place,
    operations: [
      unowned(place, entry),
      // The record tells whether this session holds the key already.
      { verb: "lock", key: place.lock, value: holder, session, isLock: true },
      put(place, entry, granted),
      ...queue,
    ],
    ...(!adds && { entryAt }),
    result: (token) => {
      own.granted({ ...change, leaseId }, clock.monotonic() + ttlMs);
      return { token, ...termOf(ttlMs, call) };
    },
    inDoubt: () => own.doubted({ ...change, leaseId }, clock.monotonic() + ttlMs),
  };
}

/** An earlier request is not answered yet, or the grant was ended after it was read: only a look from now on tells. */
function repeating(
  { change, place, call, queue, adds }: Decided,
  { leaseId, token, ttlMs }: LeaseRecord,
): Sending {
  const { entry } = change.version;
  return {
    place,
    operations: [
      { verb: "check-index", key: place.lock, index: token },
      { verb: "check-index", key: place.record, index: entry.recordIndex },
      ...queue,
    ],
    ...(!adds && { entryAt: () => entry }),
    result: () => {
      const own = call.own.get(change, identityOf(leaseId));
      if (isOwnOver(own, call.sentMs)) return false;
      if (own && !isDoubted(own)) return termOf(Math.min(ttlMs, own.untilMs - call.sentMs), call);
      // The answer of an earlier request was lost. This client ends the grant, so it may promise all of it.
      call.own.granted({ ...change, leaseId }, call.clock.monotonic() + ttlMs);
      return termOf(ttlMs, call);
    },
  };
}

/** The session keeps the lock, and this client ends the grant later: it was extended before it was read. */
function renewing(
  { change, place, call }: Decided,
  { ttlMs }: LeaseRecord,
): Sending | SaveResult<Version> {
  const { entry, isRead } = change.version;
  const { record, owner } = entry;
  const own = record && call.own.get(change, record.identity);
  if (!own || !owner) return false;
  const saved = () => termOf(own.untilMs - call.sentMs, call);
  if (ttlMs <= record.ttlMs) return isRead && saved();
  // The record says how long others may have to wait.
  const longer = { ...record, ttlMs };
  return {
    place,
    operations: [held(place, owner), put(place, entry, longer)],
    entryAt: (index) => ({ ...entry, record: longer, recordIndex: index }),
    result: saved,
  };
}

/** Its holder's client frees it at its expiry, which only that client knows. */
function revoking({ change, place, call }: Decided): Sending | boolean {
  const { entry, isRead } = change.version;
  const { record, owner } = entry;
  if (!record || !owner) return false;
  if (record.ended) return isRead;
  const revoked = { ...record, ended: "revoked", endedAt: wallText(call) } as const;
  const operations = [held(place, owner), put(place, entry, revoked)];
  return { place, operations, result: () => true };
}

/** A `delete-cas` of a missing key succeeds, so the session of the lock key is compared too. */
function ending(
  { change, place, call, queue }: Decided,
  { leaseId, ended: how }: LeaseRecord,
): Sending | boolean {
  const { entry } = change.version;
  const { record, owner } = entry;
  if (!record || !owner) return false;
  const { own, purpose } = call;
  // What an operator has revoked stays revoked when its time is over.
  const ended = purpose === "expire" ? (record.ended ?? "expired") : how;
  const renewedAt = own.get(change, record.identity)?.renewedAt ?? record.renewedAt;
  return {
    place,
    operations: [
      held(place, owner),
      { verb: "delete-cas", key: place.lock, index: owner.index },
      put(place, entry, { ...record, renewedAt, ended, endedAt: wallText(call) }),
      ...queue,
    ],
    result: () => {
      if (purpose === "release") own.released({ ...change, leaseId });
      return true;
    },
  };
}

/** What the holder may trust from the beginning of the call. */
function termOf(
  leftMs: number,
  { sentMs, sessionUntilMs }: Call,
): { readonly remainingMs: number } {
  return { remainingMs: Math.max(0, Math.floor(Math.min(leftMs, sessionUntilMs() - sentMs))) };
}

function wallText({ clock }: Call): string {
  return new Date(clock.wall()).toISOString();
}

function held({ lock }: Place, { session }: Owner): Operation {
  return { verb: "check-session", key: lock, session };
}

/** A semaphore of `consul lock -n` keeps its key without a session. */
function unowned({ lock: key }: Place, { leftIndex: index }: Entry): Operation {
  return index === 0 ? { verb: "check-not-exists", key } : { verb: "check-index", key, index };
}

/** Replaces the record, if it is as it was read. */
export function put(place: Place, { recordIndex }: Entry, record: GrantRecord): Operation {
  return { verb: "cas", key: place.record, index: recordIndex, value: encodeRecord(record) };
}
