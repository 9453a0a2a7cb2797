/**
 * Whether one person may be behind two actors. The server knows keys and subjects, not people, so it refuses what it can
 * tell from its keys and the audit:
 *
 *   the same actor · a key that was created since the request · keys of which one has created the other ·
 *   a key and its successor · a requester whose key has ended
 */
import type { AuditEntry, Control } from "leasehold/internal";
import type { Caller } from "../auth/caller.js";

const KEY = "key:";
/** Rotations that are followed from one key. */
const MOST_SUCCESSORS = 20;

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
    "this key was created after the request: use one that is older, or request it again",
};
const RELATED: SameHand = {
  why: "relatedKey",
  detail: (requestedBy) =>
    `this caller and ${requestedBy} are related: one has created or replaced the other's key`,
};

/** Null if nothing says so. */
export async function isSameHand(
  { keys, audit }: Pick<Control, "keys" | "audit">,
  { actor: requestedBy, at: requestedAt }: AuditEntry,
  { actor, namespace }: Caller,
): Promise<SameHand | null> {
  if (actor === requestedBy) return SAME;
  const requester = keyIdOf(requestedBy);
  if (requester !== null) {
    const record = await keys.find(requester);
    if (!record || record.remainingMs === 0) return ENDED;
  }
  const confirmer = keyIdOf(actor);
  if (confirmer !== null) {
    const record = await keys.find(confirmer);
    if (!record || Date.parse(record.createdAt) > Date.parse(requestedAt)) return NEW;
  }
  const createdBy = async (id: string | null, creator: string) => {
    if (id === null) return false;
    const query = { namespace, target: id, actions: ["key.create"] };
    return (await audit.list(query)).items.some((entry) => entry.actor === creator);
  };
  const replacedBy = async (first: string | null, last: string | null) => {
    if (first === null || last === null) return false;
    let id: string | null = first;
    for (let rotations = 0; id !== null && rotations < MOST_SUCCESSORS; rotations += 1) {
      const query = { namespace, target: id, actions: ["key.rotate"] };
      id = successorIn((await audit.list(query)).items);
      if (id === last) return true;
    }
    return false;
  };
  const isRelated =
    (await createdBy(confirmer, requestedBy)) ||
    (await createdBy(requester, actor)) ||
    (await replacedBy(requester, confirmer)) ||
    (await replacedBy(confirmer, requester));
  return isRelated ? RELATED : null;
}

function keyIdOf(actor: string): string | null {
  return actor.startsWith(KEY) ? actor.slice(KEY.length) : null;
}

function successorIn(entries: readonly AuditEntry[]): string | null {
  for (const { details } of entries) {
    try {
      const { successor } = JSON.parse(details) as { successor?: unknown };
      if (typeof successor === "string") return successor;
    } catch {
      // The table may have been edited by hand.
    }
  }
  return null;
}
