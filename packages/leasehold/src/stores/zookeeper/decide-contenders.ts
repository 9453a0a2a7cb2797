/**
 * Shared by acquires and the other operations: this client's contender, its end, and the outcomes about
 * it.
 */

import type { AcquireOutcome, Key, RenewRequest } from "../../core/index.js";
import { type Clock, grantIdOf } from "../../env/index.js";
import { isRefused } from "./failures.js";
import { contenderOf, contenderPrefix } from "./keys.js";
import type { OwnGrant, OwnGrants, OwnNode } from "./own-grants.js";
import type { Ended } from "./records.js";
import {
  type Change,
  type Contender,
  renewedAtOf,
  type Seen,
  type Talk,
  timeOf,
  trace,
} from "./transactions.js";

/** Tracks whether a request may have taken effect without confirmation. */
export interface Doubt {
  unknown: boolean;
  /** A response was lost, or its effect is unconfirmed: sync before the next read. */
  careful: boolean;
}
/** The state has changed: read again. */
export const AGAIN = null;
export type Again = typeof AGAIN;

/** Reads a lock as of this call or later. */
export async function readAfterSync(talk: Talk, key: Key): Promise<Seen> {
  // The server processes these in order.
  const [, seen] = await Promise.all([talk.sync(), talk.read(key)]);
  return seen;
}

/**
 * @returns true if applied; false if the state has changed meanwhile
 */
export async function commit(
  talk: Talk,
  changes: readonly Change[],
  doubt: Doubt,
): Promise<boolean> {
  doubt.unknown = true;
  try {
    await talk.commit(changes);
  } catch (error) {
    if (!isRefused(error, "NO_NODE", "BAD_VERSION")) throw error;
    doubt.unknown = false;
    return false;
  }
  doubt.unknown = false;
  return true;
}

/**
 * Deletes a contender of this client that is not first. It was never a grant, so the lock's znode gets
 * its previous contents.
 * @param version of the lock's znode, which names the contender
 * @param before the previous contents
 */
export async function withdraw(
  own: OwnGrants,
  talk: Talk,
  id: string,
  key: Key,
  mine: string,
  version: number,
  before: Buffer = Buffer.alloc(0),
): Promise<void> {
  const lock = talk.paths.lock(key);
  const changes: Change[] = [{ remove: `${lock}/${mine}` }, { set: lock, data: before, version }];
  try {
    await talk.commit(changes);
  } catch (error) {
    // It is gone, or the next read finds it.
    if (!isRefused(error, "NO_NODE", "BAD_VERSION")) throw error;
  }
  own.forget(id);
}

export function adopt(
  own: OwnGrants,
  clock: Clock,
  id: string,
  request: RenewRequest,
  contender: Contender,
  seen: Seen,
): OwnGrant {
  const { record } = contender;
  const node = nodeOf(contender, seen.stat?.version ?? -1);
  const known = own.get(id);
  if (known) {
    known.node = node;
    return known;
  }
  const { namespace, resource, leaseId } = request;
  const ttlMs = record?.ttlMs ?? request.ttlMs;
  const grant: OwnGrant = {
    id,
    grant: { namespace, resource, leaseId },
    ttlMs,
    node,
    record: record ?? {
      contender: contenderOf(leaseId),
      grantId: grantIdOf(leaseId),
      holder: "",
      ttlMs,
      metadata: null,
    },
    untilMs: clock.monotonic() + ttlMs,
  };
  own.put(grant);
  return grant;
}

/** The changes that end the grant of this contender. */
export function endingOf(
  talk: Talk,
  key: Key,
  contender: Contender,
  { stat, record: last }: Seen,
  state: Ended["state"],
): Change[] {
  const { path, record, token } = contender;
  const changes: Change[] = [{ remove: path }];
  if (record && last?.contender === record.contender && stat) {
    const grantedAtMs = timeOf({ ...contender.stat, mtime: contender.stat.ctime });
    const revoked = state === "expired" && record.revoked !== undefined;
    const ended = {
      state: revoked ? "revoked" : state,
      token,
      grantedAtMs,
      renewedAtMs: renewedAtOf(contender),
    } as const;
    changes.push(trace(talk.paths.lock(key), stat.version, record, ended));
  }
  return changes;
}

/** The name of a holder that is another kind of client. */
export function foreignHolder(data: Buffer | undefined, path: string): string {
  const text = data?.toString() ?? "";
  // Excludes control characters, which a terminal would act on.
  const shown = /^[^\p{Cc}\ufffd]{1,256}$/u.test(text) ? text : "";
  return shown || path.slice(path.lastIndexOf("/") + 1);
}

export function ownOf({ contenders }: Seen, leaseId: string): string | undefined {
  const prefix = contenderPrefix(contenderOf(leaseId));
  return contenders.find((name) => name.startsWith(prefix));
}

function nodeOf(contender: Contender, lockVersion: number): OwnNode {
  const { path, owner, token, stat } = contender;
  const grantedAtMs = timeOf({ ...stat, mtime: stat.ctime });
  const renewedAtMs = renewedAtOf(contender);
  return { path, owner, token, version: stat.version, lockVersion, grantedAtMs, renewedAtMs };
}

export function endOf({
  token,
  grantedAtMs,
  renewedAtMs,
}: Omit<Ended, "state">): Omit<Ended, "state"> {
  return { token, grantedAtMs, renewedAtMs };
}

/** Times by this process's monotonic clock. */
export interface Times {
  /** Start of the grant's TTL. */
  readonly sentMs: number;
  /** When the last confirmed write was sent. */
  readonly provenMs: number;
  /** When this client deletes the contender. */
  readonly promisedMs: number;
}

export function acquired(grant: OwnGrant, talk: Talk, times: Times): AcquireOutcome {
  const { node, ttlMs } = grant;
  return { status: "acquired", token: node?.token ?? 0, ...termOf(ttlMs, talk, times) };
}

/**
 * Bounded by the certain lifetime of the session. Rounds down, so that the holder stops early rather
 * than late.
 */
export function termOf(ttlMs: number, talk: Talk, { sentMs, provenMs, promisedMs }: Times) {
  const leftMs = Math.min(promisedMs, talk.link.lastsUntilMs(provenMs)) - sentMs;
  return { ttlMs, remainingMs: Math.max(0, Math.floor(leftMs)), expiresAt: null };
}
