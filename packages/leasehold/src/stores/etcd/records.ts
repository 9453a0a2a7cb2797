/**
 * The state read of a resource at one revision: the record of its last grant, and the oldest of its
 * lock keys. The grant is alive while its own key exists, identified by its create revision:
 *
 *   record   none              token = t            token = t, ended       token = t
 *   owner    any or none       created at t         none                   none, or created later
 *            no grant yet      live (or revoked     released, revoked      expired; another's lock
 *                              and not yet free)
 *
 * That revision is the fencing token: it grows with every change in the cluster and never decreases.
 */
import { grantIdOf } from "../../env/index.js";
import type { Key, LeaseState, LeaseView } from "../../lease/index.js";
import {
  COMPARE,
  type Compare,
  type KeyValue,
  type Operation,
  type RangeAnswer,
  revisionOf,
  SORT,
} from "./connection-api.js";
import { below, type KeyRange, type Place } from "./keys.js";
import { NO_WAITERS, type WaitQueue } from "./wait-queue.js";

/** The last grant. Times are clients' wall clocks in ISO 8601, for display. */
export interface GrantRecord {
  /** Of a grant of an earlier version its grant id, which equals no request's lease id. */
  readonly leaseId: string;
  readonly holder: string;
  /** The create revision of its lock key. */
  readonly token: number;
  readonly ttlMs: number;
  readonly grantedAt: string;
  readonly renewedAt: string | null;
  readonly expiresAt: string;
  readonly ended: "released" | "revoked" | null;
  readonly metadata: string | null;
}

/** The oldest lock key. */
export interface Owner {
  readonly key: string;
  readonly createRevision: number;
  /** Id of its engine lease; "0" if none. */
  readonly lease: string;
  readonly value: string;
}

export interface Entry {
  readonly record: GrantRecord | null;
  /** Mod revision of the record, which writes compare; 0 if there is none. */
  readonly modRevision: number;
  readonly owner: Owner | null;
  /** The wait queue, as far as it was read. */
  readonly waiters: WaitQueue;
}

export const NOTHING: Entry = { record: null, modRevision: 0, owner: null, waiters: NO_WAITERS };

/** Reads both with two operations, so that a transaction without a condition stays read-only. */
export function readEntry({ record, locks }: Place, revision?: string): Operation[] {
  const { start, end } = below(locks);
  const at = revision === undefined ? {} : { revision };
  return [
    { request_range: { key: record, ...at } },
    {
      request_range: {
        key: start,
        range_end: end,
        limit: "1",
        ...at,
        sort_target: SORT.CREATE,
        sort_order: SORT.ASCEND,
      },
    },
  ];
}

export function entryOf(
  record: RangeAnswer | undefined,
  locks: RangeAnswer | undefined,
  waiters: WaitQueue = NO_WAITERS,
): Entry {
  const [kv] = record?.kvs ?? [];
  const [first] = locks?.kvs ?? [];
  return {
    record: kv ? recordOf(kv) : null,
    modRevision: kv ? revisionOf(kv.mod_revision) : 0,
    owner: first
      ? {
          key: first.key,
          createRevision: revisionOf(first.create_revision),
          lease: first.lease ?? "0",
          value: first.value ?? "",
        }
      : null,
    waiters,
  };
}

/** Compares that the entry is unchanged. */
export function unchanged(place: Place, { modRevision, owner }: Entry): Compare[] {
  const { MOD, CREATE, EQUAL } = COMPARE;
  return [
    { key: place.record, target: MOD, result: EQUAL, mod_revision: modRevision },
    owner
      ? { key: owner.key, target: CREATE, result: EQUAL, create_revision: owner.createRevision }
      : emptyRange(below(place.locks)),
  ];
}

function emptyRange({ start, end }: KeyRange): Compare {
  const { CREATE, EQUAL } = COMPARE;
  // This holds for an empty range.
  return { key: start, range_end: end, target: CREATE, result: EQUAL, create_revision: 0 };
}

/** A new grant's token is unknown inside its transaction: it is that transaction's revision. */
export function encodeRecord(record: GrantRecord): string {
  return JSON.stringify(record.token === 0 ? { ...record, token: undefined } : record);
}

interface Stored extends Omit<GrantRecord, "leaseId" | "token"> {
  readonly leaseId?: string;
  readonly token?: number;
  /** In records of earlier versions, instead of the lease id. */
  readonly grantId?: string;
}

function recordOf(kv: KeyValue): GrantRecord {
  const { grantId = "", ...record } = JSON.parse(kv.value ?? "") as Stored;
  const { leaseId = grantId, token = revisionOf(kv.mod_revision) } = record;
  return { ...record, leaseId, token };
}

/** In characters of at most three bytes: a holder's name has at most 256 bytes. */
const LONGEST_PROPOSAL = 85;

/** Names another etcd client, whose elections store the candidate's proposal as the value. */
export function foreignHolder({ key, value }: Owner): string {
  if (value !== "" && value.length <= LONGEST_PROPOSAL) return value;
  return `etcd lease ${key.slice(key.lastIndexOf("/") + 1)}`;
}

/** Reports whether the last grant excludes others: live, or revoked and not yet expired. */
export function excludesOthers(
  entry: Entry,
): entry is Entry & { record: GrantRecord; owner: Owner } {
  return entry.owner !== null && entry.owner.createRevision === entry.record?.token;
}

export function stateOf(entry: Entry & { record: GrantRecord }): LeaseState {
  return entry.record.ended ?? (excludesOthers(entry) ? "live" : "expired");
}

/**
 * @param remainingMs remaining time of the engine lease
 */
export function viewOf(
  { namespace, resource }: Key,
  entry: Entry & { record: GrantRecord },
  remainingMs: number,
): LeaseView {
  const { record } = entry;
  const state = stateOf(entry);
  const { holder, leaseId, token, ttlMs, grantedAt, renewedAt, expiresAt, metadata } = record;
  const leftMs = Math.ceil(Math.min(ttlMs, Math.max(1, remainingMs)));
  return {
    namespace,
    resource,
    holder,
    grantId: grantIdOf(leaseId),
    token,
    state,
    ttlMs,
    remainingMs: state === "live" ? leftMs : 0,
    ...(state === "revoked" && excludesOthers(entry) && { freeInMs: leftMs }),
    grantedAt,
    renewedAt,
    expiresAt,
    metadata,
  };
}
