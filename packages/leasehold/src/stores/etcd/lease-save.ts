/**
 * One change as a nested transaction: it compares everything that the decision rests on, and reads if that has changed. Waiters
 * join in either case.
 */
import type { LeaseRecord } from "../../lease/index.js";
import type { Change } from "../../store-kit/index.js";
import type { Operation } from "./connection-api.js";
import type { EngineLease } from "./engine-leases.js";
import { readingOf, type Version } from "./lease-load.js";
import { type Entry, encodeRecord, type GrantRecord, unchanged } from "./records.js";
import {
  findWaiter,
  type Joining,
  keysOf,
  noNewWaiter,
  passedOver,
  putWaiter,
  type Ring,
  ringing,
  without,
} from "./wait-queue.js";

/** After this many consecutive changes by this client, the next one expects no other writer. */
const UNDISTURBED = 3;

/** A change with the engine leases for what it writes. */
export interface Prepared {
  readonly change: Change<Version>;
  /** The lock is put under it; null: it stays under its own, or is deleted. */
  readonly lease: EngineLease | null;
  readonly joins: readonly Joining[];
  /** The lease ids of the waiters that leave by themselves. */
  readonly withdrawn: readonly string[];
  /** What the record becomes; null: it stays. The token is 0 if it will be the revision of this change. */
  readonly record: GrantRecord | null;
  /** What is left of the grant where it stays under its engine lease; null: its whole TTL. */
  readonly leftMs: number | null;
}

/** What a change does to the lock key. */
export function lockChange({ record, changesGrant, version }: Change<Version>) {
  if (record === null) return "kept";
  if (record.ended === null) return changesGrant ? "renewed" : "granted";
  return record.expiresAtMs <= version.nowMs ? "freed" : "kept";
}

/** The record that a change leaves, with the times of a client's wall clock, for people. */
export function writtenOf(
  { record, changesGrant, version }: Change<Version>,
  isFreed: boolean,
  textAt: (inMs: number) => string,
): GrantRecord | null {
  if (record === null) return null;
  const { ttlMs, ended } = record;
  const before = version.entry.record;
  if (!changesGrant || !before) return newGrant(record, textAt);
  if (ended) return { ...before, ended, ...(isFreed && { expiresAt: textAt(0) }) };
  return { ...before, ttlMs, renewedAt: textAt(0), expiresAt: textAt(ttlMs) };
}

function newGrant(
  { leaseId, holder, ttlMs, metadata }: LeaseRecord,
  textAt: (inMs: number) => string,
): GrantRecord {
  const times = { grantedAt: textAt(0), renewedAt: null, expiresAt: textAt(ttlMs) };
  return { leaseId, holder, token: 0, ttlMs, ...times, ended: null, metadata };
}

export function operationOf(prepared: Prepared): Operation {
  const { change, record, joins } = prepared;
  const { version, changesGrant, served } = change;
  const { place, entry, changes } = version;
  const rung = ringOf(change);
  // The own position of a waiter is the proof that no earlier waiter was added.
  const isNew = record !== null && !changesGrant && served === null;
  const given = [...rung.given, ...(isNew ? [noNewWaiter(place, entry.waiters)] : [])];
  const waiting = joins.flatMap((one) => putWaiter(place, one));
  const deleted = [...leaving(prepared), ...rung.deleted];
  return {
    request_txn: {
      compare: [...unchanged(place, entry), ...given],
      success: [
        ...deleted.map((key): Operation => ({ request_delete_range: { key } })),
        ...(record
          ? [{ request_put: { key: place.record, value: encodeRecord(record) } } as const]
          : []),
        ...lockOperations(prepared),
        ...waiting,
      ],
      // These reads are nearly half of the request.
      failure: [...waiting, ...(changes < UNDISTURBED ? readingOf(version) : [])],
    },
  };
}

/** The state after the change. */
export function entryAfter(prepared: Prepared, revision: number): Entry {
  const { change, record, lease } = prepared;
  const { place, entry: before } = change.version;
  const waiters = without(place, before.waiters, leaving(prepared));
  if (!record) return { ...before, waiters };
  const token = record.token || revision;
  const entry = { record: { ...record, token }, modRevision: revision, waiters };
  if (lockChange(change) === "freed") return { ...entry, owner: null };
  if (!lease) return { ...entry, owner: before.owner };
  const { key, value } = lockOf(prepared, lease);
  return { ...entry, owner: { key, createRevision: token, lease: lease.id, value } };
}

function lockOperations(prepared: Prepared): Operation[] {
  const { change, lease } = prepared;
  const { owner } = change.version.entry;
  if (lockChange(change) === "freed" && owner) {
    return [{ request_delete_range: { key: owner.key } }];
  }
  if (!lease) return [];
  return [{ request_put: { ...lockOf(prepared, lease), lease: lease.id } }];
}

/** The key of a grant keeps the name that it was made with. */
function lockOf({ change }: Prepared, { id }: EngineLease) {
  const { version, changesGrant, record } = change;
  const { place, entry } = version;
  if (changesGrant && entry.owner) return { key: entry.owner.key, value: entry.owner.value };
  return { key: place.locks + BigInt(id).toString(16), value: record?.holder ?? "" };
}

/** The keys of waiters that leave. */
function leaving({ change: { version, served }, withdrawn }: Prepared): string[] {
  const { place, entry } = version;
  const gone = withdrawn.flatMap((leaseId) => keysOf(place, leaseId));
  const own = served === null ? null : findWaiter(entry.waiters, served);
  if (!own) return gone;
  return [...keysOf(place, own.leaseId), ...passedOver(place, entry.waiters, own), ...gone];
}

/**
 * Wakes the first waiter that remains, if the resource is free for it then. A waiter that gives up where it is not the first compares
 * that it is not meanwhile: then it would pass the resource on.
 */
function ringOf(change: Change<Version>): Ring {
  const { version, withdrawn, wakes, record } = change;
  const { place, entry } = version;
  const first = entry.waiters.first.filter(({ leaseId }) => !withdrawn.includes(leaseId));
  if (!wakes) {
    const isLeft = withdrawn.length > 0 && entry.owner === null && first[0] !== undefined;
    return { given: isLeft ? ringing(place, entry.waiters).given : [], deleted: [] };
  }
  if (record !== null && lockChange(change) !== "freed") return { given: [], deleted: [] };
  return ringing(place, { ...entry.waiters, first });
}
