/** Reads single leases and pages of a namespace, and collects grants that ended long ago. */

import { digestOf, grantIdOf, isoTime } from "../../env/index.js";
import {
  cursorAfter,
  type Key,
  type LeaseView,
  type ListQuery,
  type Page,
  resourceOfCursor,
} from "../../lease/index.js";
import { exact } from "./connection-driver.js";
import { Refused } from "./failures.js";
import { nameOf } from "./keys.js";
import {
  type Contender,
  type LockState,
  orNull,
  refusedOr,
  type Talk,
  timeOf,
  trace,
} from "./transactions.js";

/** The number of locks read concurrently. */
const READ_AT_ONCE = 100;
const DEFAULT_PAGE = 100;

export async function viewOf(talk: Talk, key: Key): Promise<LeaseView | null> {
  for (;;) {
    const seen = await talk.latest(key);
    const [first] = seen.contenders;
    if (first === undefined) return endedView(key, seen);
    const contender = await talk.contender(key, first);
    if (contender) return liveView(key, contender, seen.nowMs);
  }
}

function liveView({ namespace, resource }: Key, contender: Contender, nowMs: number): LeaseView {
  const { record, token, holder, path, dueMs, renewedAtMs } = contender;
  const grantedAt = isoTime(contender.grantedAtMs);
  const common = { namespace, resource, token, holder, grantedAt };
  if (!record) {
    return {
      ...common,
      grantId: grantIdOf(digestOf(path)),
      state: "live",
      // It lasts as long as its session, which only the ensemble knows.
      ttlMs: 0,
      remainingMs: 0,
      renewedAt: null,
      expiresAt: null,
      metadata: null,
    };
  }
  const { grantId, ttlMs, metadata, revoked } = record;
  const leftMs = Math.max(0, dueMs - nowMs);
  return {
    ...common,
    grantId,
    ttlMs,
    metadata,
    state: revoked ? "revoked" : "live",
    remainingMs: revoked ? 0 : Math.min(ttlMs, leftMs),
    ...(revoked && { freeInMs: leftMs }),
    renewedAt: renewedAtMs === null ? null : isoTime(renewedAtMs),
    expiresAt: isoTime(dueMs),
  };
}

function endedView({ namespace, resource }: Key, { record, stat }: LockState): LeaseView | null {
  if (!record || !stat) return null;
  const { holder, grantId, ttlMs, metadata, ended } = record;
  // Its session ended without a record. The lock's znode was last written at the grant.
  const grantedAtMs = ended?.grantedAtMs ?? timeOf(stat);
  const renewedAtMs = ended?.renewedAtMs ?? null;
  return {
    namespace,
    resource,
    holder,
    grantId,
    ttlMs,
    metadata,
    remainingMs: 0,
    token: ended?.token ?? exact(stat.mzxid),
    state: ended?.state ?? "expired",
    grantedAt: isoTime(grantedAtMs),
    renewedAt: renewedAtMs === null ? null : isoTime(renewedAtMs),
    expiresAt: isoTime(ended ? timeOf(stat) : grantedAtMs + ttlMs),
  };
}

export async function listOf(talk: Talk, query: ListQuery): Promise<Page<LeaseView>> {
  const { namespace, prefix = "", states, renewedOnly = false, cursor } = query;
  const { limit = DEFAULT_PAGE } = query;
  const after = cursor === undefined ? null : Buffer.from(resourceOfCursor(cursor));
  await talk.sync();
  const segments = await childrenOf(talk, talk.paths.namespace(namespace) || "/");

  const names = talk.paths
    .resources(namespace, segments)
    .filter((name) => name.startsWith(prefix))
    .map((name) => ({ name, bytes: Buffer.from(name) }))
    .filter(({ bytes }) => !after || bytes.compare(after) > 0)
    .sort((a, b) => a.bytes.compare(b.bytes));
  const found: LeaseView[] = [];
  for (let at = 0; at < names.length && found.length <= limit; at += READ_AT_ONCE) {
    const views = await Promise.all(
      names
        .slice(at, at + READ_AT_ONCE)
        .map(({ name: resource }) => viewOf(talk, { namespace, resource })),
    );
    for (const view of views) {
      if (!view || (states && !states.includes(view.state))) continue;
      if (renewedOnly && view.renewedAt === null) continue;
      found.push(view);
    }
  }
  const items = found.slice(0, limit);
  const last = found.length > limit ? items.at(-1) : undefined;
  return { items, nextCursor: last ? cursorAfter(last.resource) : null };
}

/**
 * Deletes the znodes of locks whose last grant ended long ago, and empty namespaces. If a session's end
 * freed a grant, no client recorded when: the first collection records it, and the age counts from
 * then.
 * @returns the number of deleted locks
 */
export async function collect(newTalk: () => Promise<Talk>, olderThanMs: number): Promise<number> {
  const nowMs = await (await newTalk()).sync();
  let collected = 0;
  const { paths } = await newTalk();
  const others = await childrenOf(await newTalk(), paths.namespaces);
  const namespaces = others.flatMap((segment) => nameOf(segment) ?? []);
  for (const namespace of ["default", ...namespaces]) {
    const folder = paths.namespace(namespace);
    const names = paths.resources(namespace, await childrenOf(await newTalk(), folder || "/"));
    for (let at = 0; at < names.length; at += READ_AT_ONCE) {
      const talk = await newTalk();
      const keys = names.slice(at, at + READ_AT_ONCE).map((resource) => ({ namespace, resource }));
      const gone = await Promise.all(
        keys.map((key) => collectLock(talk, key, nowMs - olderThanMs)),
      );
      collected += gone.filter(Boolean).length;
    }
    // The server rejects this unless the znode is empty.
    if (namespace !== "default")
      await unlessMeanwhile(async () => {
        const { link, deadlineMs } = await newTalk();
        await link.remove(folder, -1, deadlineMs);
      });
  }
  await collectQueues(newTalk);
  return collected;
}

/** Deletes empty wait queues; the server rejects deleting others. */
async function collectQueues(newTalk: () => Promise<Talk>): Promise<void> {
  const { paths } = await newTalk();
  const removeEmpty = async (path: string) => {
    const { link, deadlineMs } = await newTalk();
    await link.remove(path, -1, deadlineMs);
  };
  for (const namespace of await childrenOf(await newTalk(), paths.queues)) {
    const folder = `${paths.queues}/${namespace}`;
    const queues = await childrenOf(await newTalk(), folder);
    for (let at = 0; at < queues.length; at += READ_AT_ONCE) {
      const some = queues.slice(at, at + READ_AT_ONCE);
      await Promise.all(
        some.map((queue) => unlessMeanwhile(() => removeEmpty(`${folder}/${queue}`))),
      );
    }
    await unlessMeanwhile(() => removeEmpty(folder));
  }
}

async function collectLock(talk: Talk, key: Key, beforeMs: number): Promise<boolean> {
  const { stat, record, contenders } = await talk.read(key);
  if (!stat || !record || contenders.length > 0) return false;
  const path = talk.paths.lock(key);
  const { ended } = record;
  if (!ended) {
    const token = exact(stat.mzxid);
    const grantedAtMs = timeOf(stat);
    const note = { state: "expired", token, grantedAtMs, renewedAtMs: null } as const;
    await unlessMeanwhile(() => talk.commit([trace(path, stat.version, record, note)]));
    return false;
  }
  if (timeOf(stat) >= beforeMs) return false;
  // A concurrent grant has changed the version.
  return unlessMeanwhile(() => talk.link.remove(path, stat.version, talk.deadlineMs));
}

/** Reports whether it was applied. Locks that have changed meanwhile wait for the next collection. */
async function unlessMeanwhile(work: () => Promise<unknown>): Promise<boolean> {
  const codes = ["NO_NODE", "BAD_VERSION", "NOT_EMPTY", "NODE_EXISTS"] as const;
  return !((await refusedOr(work(), ...codes)) instanceof Refused);
}

async function childrenOf({ link, deadlineMs }: Talk, path: string): Promise<string[]> {
  return (await orNull(link.getChildren(path, deadlineMs)))?.children ?? [];
}
