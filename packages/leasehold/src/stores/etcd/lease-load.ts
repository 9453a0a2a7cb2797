/**
 * What a resource is to the rules: its last grant, or the lock of another client, and the wait queue.
 *
 * No clock of etcd can be read. The time is that of this process's monotonic clock: a grant ends when its engine lease does, and a
 * free resource is free since this client first saw it free.
 */
import type { LeaseRecord } from "../../lease/index.js";
import {
  EMPTY_QUEUE,
  type KeyToLoad,
  type Loaded,
  type LoadedQueue,
} from "../../store-kit/index.js";
import type { Operation, Response } from "./connection-api.js";
import { Place } from "./keys.js";
import {
  type Entry,
  entryOf,
  excludesOthers,
  foreignHolder,
  readEntry,
  viewOf,
} from "./records.js";
import { findWaiter, queueOf, readQueue } from "./wait-queue.js";

/** A key that requests name. */
export interface Asked {
  readonly place: Place;
  readonly key: KeyToLoad;
}

/** What a change compares. */
export interface Version extends Asked {
  readonly entry: Entry;
  /** Consecutive changes by this client since the resource was read. */
  readonly changes: number;
  /** The time of the decision. */
  readonly nowMs: number;
}

/** What this client's clocks say of an entry. Times in milliseconds. */
export interface Terms {
  /** A lower bound of what is left of the grant; null: unknown. */
  readonly leftMs: number | null;
  /** How long this client has seen the resource free. */
  readonly freeForMs: number;
  /** What is left of the waiters of the requests, by their lease ids. */
  readonly waitersMs: ReadonlyMap<string, number>;
  /** The number of waiters before one that was read without those. */
  readonly aheadOf: (leaseId: string) => number;
}

export function askedFor(prefix: string, key: KeyToLoad): Asked {
  return { place: new Place(prefix, key), key };
}

export function readingOf({ place, key }: Asked): Operation[] {
  return [...readEntry(place), ...readQueue(place, key.leaseIds)];
}

/** @param responses to {@link readingOf} */
export function entryIn(
  { place }: Asked,
  [record, locks, ...waiters]: readonly Response[],
  revision: number,
): Entry {
  const queue = queueOf(place, waiters, revision);
  return entryOf(record?.response_range, locks?.response_range, queue);
}

export function loadedOf(version: Version, terms: Terms): Loaded<Version> {
  const { entry, key } = version;
  const { record } = entry;
  return {
    record: recordOf(version, terms),
    version,
    isPaused: false,
    leastToken: 1,
    queue: queueIn(version, terms),
    view: () => record && viewOf(key, { ...entry, record }, 0),
  };
}

const NEITHER = { ttlMs: 0, grantedAtMs: 0, renewedAtMs: null, metadata: null };

function recordOf(
  { entry, key, nowMs }: Version,
  { leftMs, freeForMs }: Terms,
): LeaseRecord | null {
  const { record, owner, waiters } = entry;
  const { token = 0 } = record ?? {};
  if (owner && !excludesOthers(entry)) {
    // An operator, who names no lease id, ends no lock of another program.
    if (key.leaseIds.length === 0) return null;
    const holder = foreignHolder(owner);
    const expiresAtMs = Number.POSITIVE_INFINITY;
    return { ...NEITHER, leaseId: "", holder, token, expiresAtMs, ended: null };
  }
  const freeSinceMs = nowMs - freeForMs;
  if (!record) {
    // Another client's lock was here, and those that wait behind it come first.
    if (waiters.count === 0) return null;
    const expiresAtMs = freeSinceMs;
    return { ...NEITHER, leaseId: "", holder: "", token, expiresAtMs, ended: "released" };
  }
  const { leaseId, holder, ttlMs, ended, metadata } = record;
  // An engine lease that should be over still keeps its keys.
  const keptMs = leftMs === null ? Number.POSITIVE_INFINITY : Math.min(ttlMs, Math.max(1, leftMs));
  return {
    leaseId,
    holder,
    token,
    ttlMs,
    grantedAtMs: Date.parse(record.grantedAt),
    renewedAtMs: record.renewedAt === null ? null : Date.parse(record.renewedAt),
    expiresAtMs: owner ? nowMs + keptMs : freeSinceMs,
    ended,
    metadata,
  };
}

function queueIn(
  { entry: { waiters }, key: { leaseIds }, nowMs }: Version,
  { waitersMs, aheadOf }: Terms,
): LoadedQueue {
  const { first, count } = waiters;
  if (count === 0) return EMPTY_QUEUE;
  const positions = leaseIds.flatMap((leaseId) => {
    if (!findWaiter(waiters, leaseId)) return [];
    const at = first.findIndex((one) => one.leaseId === leaseId);
    const expiresAtMs = nowMs + (waitersMs.get(leaseId) ?? 0);
    return [[leaseId, { ahead: at < 0 ? aheadOf(leaseId) : at, expiresAtMs }] as const];
  });
  return { count, firstHolder: first[0]?.holder ?? "", positions: new Map(positions) };
}
