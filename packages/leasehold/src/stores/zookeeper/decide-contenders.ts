/** What taking and keeping have in common: one's own contender, its end, and the answers about it. */

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

/** Whether a request may have taken effect although nobody can say. */
export interface Doubt {
  unknown: boolean;
  /** An answer was lost, or not taken for settled: look with care. */
  careful: boolean;
}
/** Something has changed meanwhile: look again. */
export const AGAIN = null;
export type Again = typeof AGAIN;

/** A lock as it is now, or was after this call began. */
export async function lookWithCare(talk: Talk, key: Key): Promise<Seen> {
  // Answered in this order.
  const [, seen] = await Promise.all([talk.sync(), talk.look(key)]);
  return seen;
}

/** @returns whether it was done; if not, something has changed meanwhile */
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
 * Ours is not the first: it was never a grant, nor is it the last grant of the lock.
 * @param version of the lock's znode, which names it
 * @param before what stood there
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
    // It is gone, or looked at again.
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

/** The changes that end a grant whose contender is this one. */
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

/** What a client of another kind says of itself. */
export function foreignHolder(data: Buffer | undefined, path: string): string {
  const text = data?.toString() ?? "";
  // Nothing that a terminal would act on.
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

/** By this process's monotonic clock. */
export interface Times {
  /** From when on the answer counts. */
  readonly sentMs: number;
  /** When a write was sent that has been answered. */
  readonly provenMs: number;
  /** Until when this client leaves the grant alone. */
  readonly promisedMs: number;
}

export function acquired(grant: OwnGrant, talk: Talk, times: Times): AcquireOutcome {
  const { node, ttlMs } = grant;
  return { status: "acquired", token: node?.token ?? 0, ...termOf(ttlMs, talk, times) };
}

/** Not longer than the session is known to last. Whole, towards the side of stopping too early. */
export function termOf(ttlMs: number, talk: Talk, { sentMs, provenMs, promisedMs }: Times) {
  const leftMs = Math.min(promisedMs, talk.link.lastsUntilMs(provenMs)) - sentMs;
  return { ttlMs, remainingMs: Math.max(0, Math.floor(leftMs)), expiresAt: null };
}
