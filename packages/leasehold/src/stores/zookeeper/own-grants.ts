/** The grants of this client, as it knows them. */
import { grantIdOf } from "../../env/index.js";
import type { AcquireRequest, Grant, Key, LeaseRecord } from "../../lease/index.js";
import type { Own } from "../../store-kit/own.js";
import { contenderOf, contenderPrefix, type Paths } from "./keys.js";
import type { ContenderRecord } from "./records.js";
import { type Call, type Contender, grantOf, type LockState, type Talk } from "./transactions.js";

export type OwnGrants = Own<OwnGrant>;
export interface OwnGrant {
  readonly id: string;
  /** Includes the lease id, which proves the right to the grant. */
  readonly grant: Grant;
  /** As last written to its znode. */
  record: ContenderRecord;
  /** The granted TTL. */
  readonly ttlMs: number;
  /** Expiry by this process's monotonic clock. */
  untilMs: number;
  /** Its znode as last seen, and that of its lock; null while its existence is unknown. */
  node: { readonly contender: Contender; readonly lock: LockState } | null;
}

/** Identifies a grant; the prefix of its znode's name. */
export function idOf(paths: Paths, key: Key, leaseId: string): string {
  return `${paths.lock(key)}/${contenderPrefix(contenderOf(leaseId))}`;
}

/** What the znode of a new grant contains. */
export function recordFor(
  request: Pick<AcquireRequest, "leaseId" | "holder" | "ttlMs" | "metadata">,
): ContenderRecord {
  const { leaseId, holder, ttlMs, metadata } = request;
  const [contender, grantId] = [contenderOf(leaseId), grantIdOf(leaseId)];
  return { contender, grantId, holder, ttlMs, metadata: metadata ?? null };
}

/**
 * A grant of this client, as the rules know it. It excludes others until this client has deleted its znode, and so does not
 * expire before: others could still be answered that it holds the lock, after an answer that it has expired.
 * @param nowMs by the clock of this process: the time 0 of the record
 */
export function ownRecord(
  { grant, ttlMs, untilMs }: OwnGrant,
  contender: Contender,
  nowMs: number,
): LeaseRecord {
  const { leaseId } = grant;
  return {
    ...grantOf(contender, 0),
    leaseId,
    ttlMs,
    expiresAtMs: Math.max(untilMs - nowMs, Number.MIN_VALUE),
  };
}

export function newGrant(
  id: string,
  { namespace, resource, leaseId }: Grant,
  record: ContenderRecord,
  nowMs: number,
  node: OwnGrant["node"],
): OwnGrant {
  const { ttlMs } = record;
  const grant = { namespace, resource, leaseId };
  return { id, grant, record, ttlMs, untilMs: nowMs + ttlMs, node };
}

/** The grant of a contender of this client, which may not know of it yet. */
export function adopt(
  own: OwnGrants,
  { id, talk }: Call,
  request: Grant & Partial<AcquireRequest>,
  contender: Contender,
  lock: LockState,
): OwnGrant {
  const node = { contender, lock };
  const known = own.get(id);
  if (known) {
    known.node = node;
    return known;
  }
  const record = contender.record ?? recordFor({ holder: "", ttlMs: 0, ...request });
  const grant = newGrant(id, request, record, talk.link.env.clock.monotonic(), node);
  own.put(grant);
  return grant;
}

/**
 * Bounded by the certain lifetime of the session. Rounds down, so that the holder stops early rather
 * than late.
 * @param sentMs when the request was sent, from which its term counts
 * @param provenMs when the last confirmed write was sent
 */
export function trusted<Term extends { readonly remainingMs: number }>(
  term: Term,
  talk: Talk,
  sentMs: number,
  provenMs = sentMs,
) {
  const leftMs = Math.min(term.remainingMs, talk.link.lastsUntilMs(provenMs) - sentMs);
  return { ...term, remainingMs: Math.max(0, Math.floor(leftMs)), expiresAt: null };
}
