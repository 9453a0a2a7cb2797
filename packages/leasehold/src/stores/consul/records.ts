/**
 * The state read of a resource: the record of its last grant, the owner of its lock key, and its waiters.
 * The grant is alive while the lock key has the index of its grant and a session:
 *
 *   record   none              token = t            token = t, ended       token = t
 *   owner    any or none       index t              none                   none, or another index
 *            no grant yet      live (or revoked     released, revoked,     expired; another's lock
 *                              and not yet free)    expired
 *
 * The token is the ModifyIndex of the transaction that made the grant. It grows with every change in the
 * datacenter. No held lock key is written again, so its index stays.
 */
import type { Key, LeaseState, LeaseView } from "../../lease/index.js";
import { type Pair, SEMAPHORE_FLAGS } from "./connection-api.js";
import { folderOf, type Place } from "./keys.js";

/** The last grant. Times are clients' wall clocks in ISO 8601, for display. */
export interface GrantRecord {
  /** See `identityOf`. */
  readonly identity: string;
  readonly grantId: string;
  readonly holder: string;
  /** 0 in the transaction that makes the grant, which does not know its index. */
  readonly token: number;
  readonly ttlMs: number;
  readonly grantedAt: string;
  readonly renewedAt: string | null;
  readonly ended: Exclude<LeaseState, "live"> | null;
  readonly endedAt: string | null;
  readonly metadata: string | null;
}

export interface Owner {
  /** Empty for a semaphore of `consul lock`, whose contenders are other keys. */
  readonly session: string;
  readonly index: number;
  readonly value: string;
}

export interface Waiter {
  /** The last part of its key. */
  readonly id: string;
  readonly session: string;
  readonly holder: string;
  readonly grantId: string;
  readonly createIndex: number;
}

export interface Entry {
  readonly record: GrantRecord | null;
  /** ModifyIndex of the record, which changes compare; 0 if there is none. */
  readonly recordIndex: number;
  readonly owner: Owner | null;
  /** ModifyIndex of a lock key without an owner, as `consul lock` may leave it; 0 if there is none. */
  readonly leftIndex: number;
  /** The head of the queue first. */
  readonly waiters: readonly Waiter[];
}

export const NOTHING: Entry = {
  record: null,
  recordIndex: 0,
  owner: null,
  leftIndex: 0,
  waiters: [],
};

/** The pairs of each resource, by its folder. */
export function byFolder(prefix: string, pairs: readonly Pair[]): Map<string, Pair[]> {
  const folders = new Map<string, Pair[]>();
  for (const pair of pairs) {
    const folder = folderOf(prefix, pair.Key);
    if (folder === null) continue;
    const known = folders.get(folder);
    if (known) known.push(pair);
    else folders.set(folder, [pair]);
  }
  return folders;
}

/** @param pairs of this resource, as `get-tree` returns them; of two with one key, the later one counts */
export function entryOf(place: Place, pairs: readonly Pair[] = []): Entry {
  const pairOf = new Map(pairs.map((pair) => [pair.Key, pair]));
  const record = pairOf.get(place.record);
  const lock = pairOf.get(place.lock);
  const owner = ownerOf(lock);
  const waiters = [...pairOf.values()].flatMap((pair) => waiterOf(place, pair));
  return {
    record: record ? recordOf(record) : null,
    recordIndex: record?.ModifyIndex ?? 0,
    owner,
    leftIndex: owner === null ? (lock?.ModifyIndex ?? 0) : 0,
    waiters: waiters.sort((a, b) => a.createIndex - b.createIndex),
  };
}

export function encodeRecord(record: GrantRecord): string {
  return JSON.stringify(record);
}

function recordOf({ Value, ModifyIndex }: Pair): GrantRecord | null {
  const record = parse<GrantRecord>(Value);
  return record && { ...record, token: record.token || ModifyIndex };
}

function ownerOf(pair: Pair | undefined): Owner | null {
  const isSemaphore = pair?.Flags === SEMAPHORE_FLAGS;
  if (!pair || (!pair.Session && !isSemaphore)) return null;
  return { session: pair.Session ?? "", index: pair.ModifyIndex, value: pair.Value ?? "" };
}

function waiterOf({ queue }: Place, pair: Pair): Waiter[] {
  if (!pair.Key.startsWith(queue) || !pair.Session) return [];
  const { holder = "", grantId = "" } = parse<Partial<Waiter>>(pair.Value) ?? {};
  const id = pair.Key.slice(queue.length);
  return [{ id, session: pair.Session, holder, grantId, createIndex: pair.CreateIndex }];
}

/** Null for text that Leasehold did not write. */
function parse<T>(text: string | null): T | null {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return typeof value === "object" ? (value as T | null) : null;
  } catch {
    return null;
  }
}

export type Excluding = Entry & { readonly record: GrantRecord; readonly owner: Owner };

/** Reports whether the last grant excludes others: live, or revoked and not yet free. */
export function excludesOthers(entry: Entry): entry is Excluding {
  return entry.owner !== null && entry.owner.index === entry.record?.token;
}

export function stateOf(entry: Entry & { record: GrantRecord }): LeaseState {
  return entry.record.ended ?? (excludesOthers(entry) ? "live" : "expired");
}

/**
 * @param leftMs what is left of the grant, where this client knows it: the holder counts it, not Consul
 * @param renewals when each client last renewed leases, by its session
 */
export function viewOf(
  { namespace, resource }: Key,
  entry: Entry & { record: GrantRecord },
  leftMs: number | null,
  renewals: ReadonlyMap<string, string> = new Map(),
): LeaseView {
  const { record } = entry;
  const { holder, grantId, token, ttlMs, grantedAt, endedAt, metadata } = record;
  const renewedAt = renewedAtOf(entry, renewals);
  const state = stateOf(entry);
  const remainingMs = Math.max(1, Math.ceil(Math.min(ttlMs, leftMs ?? ttlMs)));
  return {
    namespace,
    resource,
    holder,
    grantId,
    token,
    state,
    ttlMs,
    remainingMs: state === "live" ? remainingMs : 0,
    ...(state === "revoked" && excludesOthers(entry) && { freeInMs: remainingMs }),
    grantedAt,
    renewedAt,
    expiresAt: endedAt,
    metadata,
  };
}

/**
 * Of a grant that excludes others when its client last renewed leases: each client writes one key for all of them. After a
 * revocation it renews others only.
 */
export function renewedAtOf(
  entry: Entry & { record: GrantRecord },
  renewals: ReadonlyMap<string, string>,
): string | null {
  const { grantedAt, renewedAt, endedAt } = entry.record;
  if (!excludesOthers(entry)) return renewedAt;
  const last = renewals.get(entry.owner.session);
  // The same client has written both times.
  if (last === undefined || last <= grantedAt) return renewedAt;
  return endedAt !== null && endedAt < last ? endedAt : last;
}
