/**
 * One change as a nested transaction: it compares everything that the decision rests on, and reads if that has changed. Waiters
 * join in either case.
 */
import { type LeaseRecord, MOST_AWAITED } from "../../lease/index.js";
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

/** etcd's default limit of operations in a transaction (--max-txn-ops). */
export const MOST_OPERATIONS = 128;
/** Waiters that leave by themselves with a change; more of them leave before it. */
export const MOST_LEAVING = 4;
/**
 * The operations of a nested transaction count in addition to those beside it: a record, a lock, a bell, the keys of two waiters that
 * are served or join, the waiters passed over, and the keys of those that leave.
 */
const MOST_CHANGES = MOST_OPERATIONS - 7 - MOST_AWAITED - 2 * MOST_LEAVING;
/**
 * Parsing a transaction's JSON takes etcd much longer than committing it, and uses one processor each.
 * So more changes than this are split between two transactions.
 */
const ENOUGH_CHANGES = 32;
/** etcd refuses requests above 1.5 MiB by default (--max-request-bytes), with all changes in them. */
const MOST_CHARACTERS = 1_000_000;
/** A change has so many characters without its metadata. A character of metadata may have six: JSON writes a control character so. */
const [CHANGE_CHARACTERS, METADATA_CHARACTERS] = [2_000, 6];
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

/** The time in so many milliseconds by a client's wall clock, for people. */
export type TimeText = (inMs: number) => string;

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
  textAt: TimeText,
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
  textAt: TimeText,
): GrantRecord {
  return {
    leaseId,
    holder,
    token: 0,
    ttlMs,
    grantedAt: textAt(0),
    renewedAt: null,
    expiresAt: textAt(ttlMs),
    ended: null,
    metadata,
  };
}

/** Returns the record with its token. It is written out, because an object that is made by spreading costs more. */
function withToken(record: GrantRecord, token: number): GrantRecord {
  const { leaseId, holder, ttlMs, grantedAt, renewedAt, expiresAt, ended, metadata } = record;
  return { leaseId, holder, token, ttlMs, grantedAt, renewedAt, expiresAt, ended, metadata };
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
  const written = record.token === 0 ? withToken(record, revision) : record;
  let { owner } = before;
  if (lockChange(change) === "freed") owner = null;
  else if (lease) {
    const { key, value } = lockOf(prepared, lease);
    owner = { key, createRevision: written.token, lease: lease.id, value };
  }
  return { record: written, modRevision: revision, owner, waiters };
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

/** The changes of each transaction: half of them, fewer if those were too many or too large. */
export function shared(changes: readonly Prepared[]): Prepared[][] {
  const half = Math.max(ENOUGH_CHANGES, Math.ceil(changes.length / 2));
  const most = Math.min(MOST_CHANGES, half);
  const shares: Prepared[][] = [];
  let characters = 0;
  for (const change of changes) {
    const { record } = change;
    const more = CHANGE_CHARACTERS + METADATA_CHARACTERS * (record?.metadata?.length ?? 0);
    const share = shares.at(-1);
    if (share && share.length < most && characters + more <= MOST_CHARACTERS) {
      share.push(change);
      characters += more;
    } else {
      shares.push([change]);
      characters = more;
    }
  }
  return shares;
}
