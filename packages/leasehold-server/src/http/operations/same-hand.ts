/**
 * Whether one person may be behind two actors. The server knows keys and subjects, not people, so it refuses what it can
 * tell from its keys and the audit:
 *
 *   the same actor · a key that was created since the request · a key of which the other one is a maker ·
 *   a requester whose key has ended
 *
 * The makers of a key are the actor that has created it, or has replaced its predecessor by it; that predecessor; and their
 * makers. Each of them may have seen the secret. A key has the owner of its predecessors: an admin that creates a key and then
 * replaces its own remains a maker of the created one.
 */
import type { AuditEntry, Control } from "leasehold/internal";
import type { Caller } from "../auth/caller.js";

const KEY = "key:";
/** Makers that are followed. Where there are more, the keys count as related. */
const MOST_MAKERS = 20;
/** How far the time of an entry may be from that of its key: both are the store's, of one transaction. */
const NEAR_MS = 60_000;
const PAGE = 500;
const MOST_PAGES = 20;

export interface SameHand {
  /** For the audit. */
  readonly why: string;
  readonly detail: (requestedBy: string) => string;
}

const SAME: SameHand = {
  why: "samePerson",
  detail: (requestedBy) => `${requestedBy} has requested it, and cannot confirm it`,
};
const ENDED: SameHand = {
  why: "requesterEnded",
  detail: (requestedBy) => `${requestedBy}, which has requested it, has ended: request it again`,
};
const NEW: SameHand = {
  why: "newKey",
  detail: () =>
    "this key was created after the request: use one that is older, or request it again once this request has ended",
};
const RELATED: SameHand = {
  why: "relatedKey",
  detail: (requestedBy) =>
    `this caller and ${requestedBy} are related: one has created or replaced the other's key`,
};

type Records = Pick<Control, "keys" | "audit">;

/** Null if nothing says so. */
export async function isSameHand(
  records: Records,
  { actor: requestedBy, at: requestedAt }: AuditEntry,
  { actor, namespace }: Caller,
): Promise<SameHand | null> {
  if (actor === requestedBy) return SAME;
  const { keys } = records;
  const requester = keyIdOf(requestedBy);
  if (await hasEnded(keys, requestedBy)) return ENDED;
  const confirmer = keyIdOf(actor);
  if (confirmer !== null) {
    const record = await keys.find(confirmer);
    if (!record || Date.parse(record.createdAt) > Date.parse(requestedAt)) return NEW;
  }
  try {
    const isRelated =
      (await hasMaker(records, namespace, confirmer, await ownersOf(records, requestedBy))) ||
      (await hasMaker(records, namespace, requester, await ownersOf(records, actor)));
    return isRelated ? RELATED : null;
  } catch (error) {
    if (error instanceof TooManyEntriesError) return RELATED;
    throw error;
  }
}

/** A rotation may be among entries that were not read. */
class TooManyEntriesError extends Error {}

/** Whether the actor has a key that was revoked or has expired. */
export async function hasEnded(keys: Records["keys"], actor: string): Promise<boolean> {
  const id = keyIdOf(actor);
  if (id === null) return false;
  const record = await keys.find(id);
  return !record || record.remainingMs === 0;
}

function keyIdOf(actor: string): string | null {
  return actor.startsWith(KEY) ? actor.slice(KEY.length) : null;
}

/** The actor and the keys that it has succeeded by rotation. */
async function ownersOf(records: Records, actor: string): Promise<ReadonlySet<string>> {
  const owners = new Set<string>();
  for (let owner: string | null = actor; owner !== null && !owners.has(owner); ) {
    owners.add(owner);
    const id = keyIdOf(owner);
    const rotation = id === null ? null : await rotationOf(records, id);
    owner = rotation && KEY + rotation.target;
  }
  return owners;
}

async function hasMaker(
  records: Records,
  namespace: string,
  keyId: string | null,
  makers: ReadonlySet<string>,
): Promise<boolean> {
  const found = new Set<string>();
  const open = keyId === null ? [] : [keyId];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    for (const actor of await makersOf(records, namespace, id)) {
      if (found.has(actor)) continue;
      found.add(actor);
      const other = keyIdOf(actor);
      if (other !== null) open.push(other);
    }
    if (found.size > MOST_MAKERS || [...found].some((one) => makers.has(one))) return true;
  }
  return false;
}

/** Who has created the key, or has replaced another one by it, and that one. */
async function makersOf(
  records: Records,
  namespace: string,
  id: string,
): Promise<readonly string[]> {
  const query = { namespace, target: id, actions: ["key.create"] };
  const { items } = await records.audit.list(query);
  if (items.length > 0) return items.map(({ actor }) => actor);
  const rotation = await rotationOf(records, id);
  return rotation ? [rotation.actor, KEY + rotation.target] : [];
}

/** The entry of the rotation that has made this key; null: none. */
async function rotationOf({ keys, audit }: Records, id: string): Promise<AuditEntry | null> {
  const record = await keys.find(id);
  return record && rotationTo(audit, id, Date.parse(record.createdAt));
}

/**
 * The entry names the key in its details alone, so it is found by its time.
 * @throws TooManyEntriesError if there are more about that time than are read
 */
async function rotationTo(
  audit: Records["audit"],
  id: string,
  createdMs: number,
): Promise<AuditEntry | null> {
  const { seq: last } = await audit.head();
  const isBefore = async (seq: number) => {
    const [entry] = await audit.read(seq - 1, 1);
    return entry !== undefined && Date.parse(entry.at) < createdMs - NEAR_MS;
  };
  // Entries are in the order of their times.
  let [before, after] = [0, last + 1];
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (await isBefore(middle)) before = middle;
    else after = middle;
  }
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const entries = await audit.read(before, PAGE);
    const rotation = entries.find((entry) => successorIn(entry) === id);
    if (rotation) return rotation;
    const end = entries.at(-1);
    if (!end || Date.parse(end.at) > createdMs + NEAR_MS) return null;
    before = end.seq;
  }
  throw new TooManyEntriesError("too many entries about the time of a rotation");
}

function successorIn({ action, details }: AuditEntry): unknown {
  if (action !== "key.rotate") return undefined;
  try {
    return (JSON.parse(details) as { successor?: unknown }).successor;
  } catch {
    // The table may have been edited by hand.
    return undefined;
  }
}
