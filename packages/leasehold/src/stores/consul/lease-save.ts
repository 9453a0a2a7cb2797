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
import { chunked, grantIdOf } from "../../env/index.js";
import type { LeaseRecord, QueuedWaiter } from "../../lease/index.js";
import type { Change, SaveResult } from "../../store-kit/index.js";
import type { Operation } from "./connection-api.js";
import { identityOf, type Place } from "./keys.js";
import { type Call, isDoubted, isOwnOver, type Version } from "./lease-load.js";
import {
  type Entry,
  type Excluding,
  encodeRecord,
  excludesOthers,
  type GrantRecord,
  type Owner,
  type Waiter,
} from "./records.js";
import type { Writing } from "./transactions.js";
import { addWaiter, served, waiterIn, withoutWaiters } from "./wait-queue.js";

/** Consul limits the operations of a transaction. */
const MOST_LEAVING = 16;

export interface Sending {
  readonly operations: readonly Operation[];
  /** The state after it; absent: it is read in the same transaction. */
  readonly entryAt?: (index: number) => Entry;
  /** Once it is applied, given its index; null: what was read decides. */
  readonly result: ((index: number) => SaveResult<Version>) | null;
  /** Called if it may have been applied. */
  readonly inDoubt?: () => void;
}

interface Decided {
  readonly change: Change<Version>;
  readonly record: LeaseRecord;
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
  const adds = adding.length > 0;
  const queue = [...withoutWaiters(place, gone), ...adding];
  if (record === null) {
    if (queue.length === 0 && !change.wakes) return true;
    return { operations: queue, result: adds ? null : () => true };
  }
  const decided = { change, record, place, call, gone, queue, adds };
  if (!changesGrant) return granting(decided);
  if (record === version.record) return repeating(decided);
  if (!excludesOthers(version.entry)) return false;
  return record.ended ? ending(decided, version.entry) : renewing(decided, version.entry);
}

function granting({ change, record, place, call, gone, queue, adds }: Decided): Sending {
  const { entry } = change.version;
  const { leaseId, holder, ttlMs, metadata } = record;
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
function repeating({ change, record, place, call, queue, adds }: Decided): Sending {
  const { entry } = change.version;
  const { leaseId, token, ttlMs } = record;
  return {
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
  { change, record: { ttlMs }, place, call }: Decided,
  entry: Excluding,
): Sending | SaveResult<Version> {
  const own = call.own.get(change, entry.record.identity);
  if (!own) return false;
  const saved = () => termOf(own.untilMs - call.sentMs, call);
  if (ttlMs <= entry.record.ttlMs) return change.version.isRead && saved();
  // The record says how long others may have to wait.
  const longer = { ...entry.record, ttlMs };
  return {
    operations: [held(place, entry.owner), put(place, entry, longer)],
    entryAt: (index) => ({ ...entry, record: longer, recordIndex: index }),
    result: saved,
  };
}

/** A `delete-cas` of a missing key succeeds, so the session of the lock key is compared too. */
function ending(
  { change, record: { leaseId, ended: how, expiresAtMs }, place, call, queue }: Decided,
  entry: Excluding,
): Sending | boolean {
  const { record, owner } = entry;
  const { own, purpose, sentMs } = call;
  // At its expiry, which only its holder's client knows, that client frees it.
  const isFreed = expiresAtMs <= sentMs;
  if (!isFreed && record.ended) return change.version.isRead;
  // What an operator has revoked stays revoked when its time is over.
  const ended = purpose === "expire" ? (record.ended ?? "expired") : how;
  const renewedAt = own.get(change, record.identity)?.renewedAt ?? record.renewedAt;
  const freeing: Operation = { verb: "delete-cas", key: place.lock, index: owner.index };
  return {
    operations: [
      held(place, owner),
      ...(isFreed ? [freeing] : []),
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
