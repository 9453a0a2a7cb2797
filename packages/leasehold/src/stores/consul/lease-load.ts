/**
 * A resource as the rules take it (lease/rules.ts), by what was read of it and what this client knows of its own grants. Times are
 * of this process's monotonic clock. What excludes others depends on the lock key alone, whatever the time is:
 *
 *   our lock, this client's     until this client ends the grant
 *   our lock, another client's  for a time that only that client knows
 *   a lock of `consul lock`     the same, and it is no grant: no lease id has it, and no operator revokes it
 *   no lock                     free, since this client has first seen it free
 */
import type { Clock } from "../../env/index.js";
import type { Key, LeaseRecord } from "../../lease/index.js";
import {
  EMPTY_QUEUE,
  type KeyToLoad,
  type Loaded,
  type LoadedQueue,
  type QueuePosition,
} from "../../store-kit/index.js";
import { identityOf } from "./keys.js";
import { isOver, type OwnGrant, type OwnGrants } from "./own-grants.js";
import { type Entry, excludesOthers, type Owner, viewOf } from "./records.js";

/** In characters of at most three bytes: a holder's name has at most 256 bytes. */
const LONGEST_VALUE = 85;

const DELAYED = "the lock-delay of a session that has ended";

/** A record that no lease id names. */
const NO_GRANT: LeaseRecord = {
  leaseId: "",
  holder: "",
  token: 0,
  ttlMs: 0,
  grantedAtMs: 0,
  renewedAtMs: null,
  expiresAtMs: 0,
  ended: null,
  metadata: null,
};

/** The operation that a resource is loaded for. `expire` releases a grant whose time is over, `withdraw` only a waiter. */
export type Purpose = "acquire" | "renew" | "release" | "revoke" | "expire" | "withdraw";

/** A call of the store, in one session. */
export interface Call {
  readonly purpose: Purpose;
  /** When it began: all that is promised counts from then. */
  readonly sentMs: number;
  /** The session of this client; empty if it has none. */
  readonly session: string;
  /** Until then that session surely lasts. */
  readonly sessionUntilMs: () => number;
  readonly clock: Clock;
  readonly own: OwnGrants;
  /** How long this client has seen a resource free. */
  readonly freeForMs: (key: Key, entry: Entry) => number;
}

/** What a change is based on. */
export interface Version {
  readonly entry: Entry;
  /** Whether the entry was read in this call. */
  readonly isRead: boolean;
  readonly record: LeaseRecord | null;
  readonly key: KeyToLoad;
}

export function loadedOf(
  entry: Entry,
  isRead: boolean,
  key: KeyToLoad,
  call: Call,
): Loaded<Version> {
  const { record: last } = entry;
  const asked = last ? key.leaseIds.find((id) => identityOf(id) === last.identity) : undefined;
  const own = last ? call.own.get(key, last.identity) : undefined;
  const record = recordOf({ key, entry, asked, own, call });
  // Only a look tells how much is left of one whose answer was lost.
  const isKnown = own && !isDoubted(own);
  const untilMs = Math.min(own?.untilMs ?? 0, call.sentMs + (last?.ttlMs ?? 0));
  return {
    record,
    version: { entry, isRead, record, key },
    isPaused: false,
    // The index of the transaction, which is larger.
    leastToken: 0,
    queue: queueOf(entry, key, call),
    trustedUntilMs: isKnown ? Math.min(untilMs, call.sessionUntilMs()) : null,
    view: () => last && viewOf(key, { ...entry, record: last }, null),
  };
}

/** A resource whose locks Consul delays after the end of a session of another program: it says so only when it is locked. */
export function delayed(version: Version): Loaded<Version> {
  const expiresAtMs = Number.POSITIVE_INFINITY;
  const record = { ...NO_GRANT, holder: DELAYED, expiresAtMs };
  // No waiter is added: the caller attempts again by itself.
  const positions = new Map(version.key.leaseIds.map((id) => [id, { ahead: 0, expiresAtMs }]));
  const queue = { ...EMPTY_QUEUE, positions };
  return { record, version: { ...version, record }, isPaused: false, leastToken: 0, queue };
}

/** Whether the answer to its request was lost. */
export function isDoubted({ lateUntilMs }: OwnGrant): boolean {
  return lateUntilMs !== null;
}

/** Whether a repeated acquire must not return the grant. One whose answer was lost is promised anew, unless its end was asked for. */
export function isOwnOver(own: OwnGrant | undefined, sentMs: number): boolean {
  return own !== undefined && (!isDoubted(own) || own.isEnding) && isOver(own, sentMs);
}

interface Read {
  readonly key: Key;
  readonly entry: Entry;
  /** The lease id of the last grant, if it is among those asked for. */
  readonly asked: string | undefined;
  /** The last grant, as this client tracks it. */
  readonly own: OwnGrant | undefined;
  readonly call: Call;
}

/** The last grant, or the lock of another program. */
function recordOf(read: Read): LeaseRecord | null {
  const { purpose } = read.call;
  if (purpose === "renew") return forHolder(read);
  return purpose === "acquire" || purpose === "revoke" ? forOthers(read) : forRelease(read);
}

function forHolder({ entry, asked, own, call }: Read): LeaseRecord | null {
  const { record, owner } = entry;
  const { sentMs, session, clock } = call;
  if (!record || asked === undefined) return grantOf(entry, undefined, sentMs);
  const { ended } = record;
  if (ended) return grantOf(entry, asked, sentMs, ended === "expired" ? null : ended);
  const isLocked = excludesOthers(entry);
  if (owner && !isLocked) return grantOf(entry, undefined, sentMs);
  const isLeft = own !== undefined && own.untilMs > clock.monotonic();
  // Only the client with its session keeps it alive. Without a lock, its session has ended, or an operator deleted the key: the
  // holder must learn of that before the expiry.
  const isGone = isLocked ? owner?.session !== session : isLeft;
  if (isGone) return grantOf(entry, asked, sentMs, "released");
  // Where its time is over, this client is about to end it.
  return grantOf(entry, asked, isLocked && own && !isOver(own, sentMs) ? own.untilMs : sentMs);
}

function forOthers({ key, entry, asked, own, call }: Read): LeaseRecord | null {
  const { owner, waiters } = entry;
  const { purpose, sentMs, session } = call;
  if (excludesOthers(entry)) {
    const { ended, ttlMs } = entry.record;
    const isMine = entry.owner.session === session;
    // Only its own client repeats a grant. A revoked one has ended for all clients.
    const leaseId = isMine || ended ? asked : undefined;
    const isEnded = ended !== null || (isMine && isOwnOver(own, sentMs));
    const unknownMs = purpose === "revoke" ? ttlMs : Number.POSITIVE_INFINITY;
    const leftMs = own && !isDoubted(own) ? Math.max(1, own.untilMs - sentMs) : unknownMs;
    return grantOf(entry, leaseId, sentMs + leftMs, isEnded ? "revoked" : null);
  }
  if (owner && purpose === "acquire") {
    // A lease id that had the last grant gets no other one.
    const ended = asked === undefined ? null : "revoked";
    const expiresAtMs = Number.POSITIVE_INFINITY;
    return { ...NO_GRANT, leaseId: asked ?? "", holder: nameOf(owner), expiresAtMs, ended };
  }
  if (owner || waiters.length === 0) return grantOf(entry, asked, sentMs);
  const expiresAtMs = sentMs - call.freeForMs(key, entry);
  return grantOf(entry, asked, expiresAtMs) ?? { ...NO_GRANT, expiresAtMs };
}

/** Only the client that holds a grant may release it. */
function forRelease({ entry, asked, call }: Read): LeaseRecord | null {
  const { record, owner } = entry;
  const { purpose, sentMs, session } = call;
  const leaseId = purpose === "withdraw" ? undefined : asked;
  if (purpose === "release" && record?.ended === "released") {
    return grantOf(entry, leaseId, sentMs, "released");
  }
  if (!owner) return grantOf(entry, undefined, sentMs);
  const isMine = owner.session === session && excludesOthers(entry);
  const ended = record?.ended ? "revoked" : null;
  return grantOf(entry, isMine ? leaseId : undefined, Number.POSITIVE_INFINITY, ended);
}

/** Names the holder of a lock of `consul lock`, or of another program. */
function nameOf({ value, session }: Owner): string {
  // Excludes control characters, which a terminal would act on.
  if (value.length <= LONGEST_VALUE && /^[^\p{Cc}\ufffd]+$/u.test(value)) return value;
  return session === "" ? "a semaphore of Consul" : `Consul session ${session}`;
}

/** @param leaseId undefined: none that was asked for */
function grantOf(
  { record }: Entry,
  leaseId: string | undefined,
  expiresAtMs: number,
  ended: LeaseRecord["ended"] = null,
): LeaseRecord | null {
  if (!record) return null;
  const { grantId, identity, holder, token, ttlMs, metadata } = record;
  const named = { ...NO_GRANT, leaseId: leaseId ?? grantId + identity, holder };
  return { ...named, token, ttlMs, metadata, expiresAtMs, ended };
}

function queueOf({ waiters }: Entry, key: KeyToLoad, { purpose, session, own }: Call): LoadedQueue {
  if (waiters.length === 0) return EMPTY_QUEUE;
  const positions = key.leaseIds.flatMap((leaseId): [string, QueuePosition][] => {
    const identity = identityOf(leaseId);
    const ahead = waiters.findIndex(({ id }) => id === identity);
    const isMine = waiters[ahead]?.session === session;
    // Only an acquire moves the waiter of another session, which has ended or will; the end of a grant moves none.
    if (ahead < 0 || purpose === "expire" || (!isMine && purpose !== "acquire")) return [];
    const untilMs = isMine ? own.waiterUntilMs({ ...key, leaseId }) : undefined;
    return [[leaseId, { ahead, expiresAtMs: untilMs ?? 0 }]];
  });
  const firstHolder = waiters[0]?.holder ?? "";
  return { count: waiters.length, firstHolder, positions: new Map(positions) };
}
