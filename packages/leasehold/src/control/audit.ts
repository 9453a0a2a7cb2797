/**
 * The audit: a chain of operator actions in which each entry holds the hash of the entry before.
 *
 *   hash(n) = SHA-256(JSON [hash(n - 1), seq, at, namespace, actor, action, target, reason, phase,
 *                           details])           hash(0) = 64 zeros, seq from 1 without a gap
 *
 * A changed, deleted, inserted or moved entry breaks the chain after it. An earlier export that was kept elsewhere ends
 * with {seq, hash} of its last entry: it reveals a chain whose end was cut off or that was rewritten.
 */

import { digestOf, nextTurn } from "../env/index.js";
import { InvalidOptionError, type Page, StoreMisconfiguredError } from "../lease/index.js";

/**
 * done: the operator action and this entry were committed together. Stores that cannot do that write an
 * `intent` before the action and its `result` after it. An intent without a result may have been done or not.
 */
export type AuditPhase = "done" | "intent" | "result";

/** An entry of the audit before it is in the chain. */
export interface NewAuditEntry {
  readonly namespace: string;
  /** The actor: `key:<id>` or, on the command line, `cli:<user>`. */
  readonly actor: string;
  /** The action, as `subject.verb`: `lease.revoke`, `key.create`. */
  readonly action: string;
  /** The object of the action: a resource, a task id, a prefix, a key's id. */
  readonly target: string;
  /** The reason, in the actor's words; null if the action needs none. */
  readonly reason: string | null;
  readonly phase: AuditPhase;
  /** More about it, as JSON. Never a secret. */
  readonly details: string;
}

/** An entry of the audit in the chain, in which each entry has a hash over itself and the one before. */
export interface AuditEntry extends NewAuditEntry {
  readonly seq: number;
  /** The store's time, ISO 8601. */
  readonly at: string;
  readonly hash: string;
}

/** The end of the chain at some time. */
export interface ChainEnd {
  readonly seq: number;
  readonly hash: string;
}

/** Which entries of the audit to list. A namespace of null lists those of all namespaces. */
export interface AuditQuery {
  readonly namespace: string | null;
  /** Only entries about this target. */
  readonly target?: string;
  /** Only these actions. */
  readonly actions?: readonly string[];
  /** At most this many; default 100. */
  readonly limit?: number;
  readonly cursor?: string;
}

/** The entries of the audit, which a store keeps: they are added and read, never changed. */
export interface AuditLog {
  /** Adds entries at the end of the chain, in their order. */
  append(entries: readonly NewAuditEntry[]): Promise<readonly AuditEntry[]>;
  /** The latest first. */
  list(query: AuditQuery): Promise<Page<AuditEntry>>;
  /** The chain of all namespaces in order: at most `limit` entries after `afterSeq`. */
  read(afterSeq: number, limit: number): Promise<readonly AuditEntry[]>;
  /**
   * The end of the chain as the writers keep it, separate from the entries.
   * @throws MissingEndError if it was deleted
   */
  head(): Promise<ChainEnd>;
}

/**
 * For stores: the `seq` before which a query's entries must be; null: no limit.
 * @throws InvalidOptionError for a cursor that is not from a page
 */
export function beforeSeq({ cursor }: AuditQuery): number | null {
  if (cursor === undefined) return null;
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw new InvalidOptionError("cursor", "must come from a page of the audit");
}

/** The record of the chain's end was deleted. Without it, a new entry could begin a second chain. */
export class MissingEndError extends StoreMisconfiguredError {
  constructor() {
    super(
      "the end of the audit's chain was deleted (the row of audit_head), and without it no operator action is done: find " +
        'out what happened with "leasehold audit verify", then restore the row in the schema of Leasehold: INSERT INTO ' +
        "audit_head (seq, hash) SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1",
    );
  }
}

export const CHAIN_BEGIN: ChainEnd = { seq: 0, hash: "0".repeat(64) };

/**
 * The actor that the caller named in an entry's details; null if it named none. It is a claim: `actor` is
 * what the key proves.
 */
export function claimedActorOf(details: string): string | null {
  try {
    const { claimedActor } = JSON.parse(details) as { claimedActor?: unknown };
    return typeof claimedActor === "string" ? claimedActor : null;
  } catch {
    // The table may have been edited by hand.
    return null;
  }
}

/** What operators do, as entries name it. */
export type AuditAction =
  | `lease.${"revoke" | "release" | "collect"}`
  | `task.${"cancel" | "retry" | "delete"}`
  | `once.${"retry" | "delete"}`
  | `schedule.${"pause" | "resume" | "run" | "remove"}`
  | `taskLimit.${"set" | "remove"}`
  | `${"resource" | "prefix" | "queue"}.${"pause" | "resume"}`
  | `key.${"create" | "rotate" | "revoke"}`
  | "limits.set"
  // A server has refused a caller for the network that it calls from.
  | "access.refuse"
  | `access.${"deny" | "read"}`;

/** By name, so that the type demands each. */
const ACTIONS: Readonly<Record<AuditAction, true>> = {
  "lease.revoke": true,
  "lease.release": true,
  "lease.collect": true,
  "task.cancel": true,
  "task.retry": true,
  "task.delete": true,
  "once.retry": true,
  "once.delete": true,
  "schedule.pause": true,
  "schedule.resume": true,
  "schedule.run": true,
  "schedule.remove": true,
  "taskLimit.set": true,
  "taskLimit.remove": true,
  "resource.pause": true,
  "resource.resume": true,
  "prefix.pause": true,
  "prefix.resume": true,
  "queue.pause": true,
  "queue.resume": true,
  "key.create": true,
  "key.rotate": true,
  "key.revoke": true,
  "limits.set": true,
  "access.refuse": true,
  "access.deny": true,
  "access.read": true,
};
export const AUDIT_ACTIONS: readonly string[] = Object.keys(ACTIONS);

/** Names of actions in other APIs, and ours. Filters of the audit accept both. */
export const ACTION_ALIASES: Readonly<Record<string, string>> = { FORCE_UNLOCK: "lease.revoke" };

/** The entry behind `last`. */
export function chained(last: ChainEnd, entry: NewAuditEntry, at: string): AuditEntry {
  const linked = { ...entry, seq: last.seq + 1, at };
  return { ...linked, hash: hashOf(last.hash, linked) };
}

function hashOf(before: string, entry: Omit<AuditEntry, "hash">): string {
  const { seq, at, namespace, actor, action, target, reason, phase, details } = entry;
  return digestOf(
    JSON.stringify([before, seq, at, namespace, actor, action, target, reason, phase, details]),
  );
}

/** Whether the chain of the audit is whole, or the first entry at which it is not. */
export type Verification =
  | { readonly ok: true; readonly entries: number; readonly head: ChainEnd }
  /** `seq` is the first entry that is wrong. */
  | { readonly ok: false; readonly seq: number; readonly problem: string };

/**
 * Reads the chain, page by page, and compares its end with the end that the writers keep. A chain
 * that was cut off or continued by hand differs from it, unless that record was changed too.
 * @param exported the end of an earlier export, kept elsewhere: the chain must still contain it
 * @param from `export` reads only the entries behind it: those before it were verified earlier
 */
export async function verifyAudit(
  log: Pick<AuditLog, "read" | "head">,
  exported: ChainEnd = CHAIN_BEGIN,
  from: "start" | "export" = "start",
): Promise<Verification> {
  const wrong = (seq: number, problem: string): Verification => ({ ok: false, seq, problem });
  const known = [{ ...exported, of: "of the export" }];
  const before = await endOf(log);
  if (before) known.push({ ...before, of: "that was written last" });
  let end = CHAIN_BEGIN;
  if (from === "export" && exported.seq > 0) {
    const { seq, hash } = exported;
    const [entry] = await log.read(seq - 1, 1);
    if (entry?.seq !== seq)
      return wrong(seq, `entry ${seq} is missing, the last one of the export`);
    if (entry.hash !== hash) return wrong(seq, `entry ${seq} is not the last one of the export`);
    end = exported;
  }
  for (;;) {
    const page = await log.read(end.seq, 1_000);
    for (const entry of page) {
      const seq = end.seq + 1;
      if (entry.seq !== seq) return wrong(seq, `entry ${seq} is missing`);
      if (entry.hash !== hashOf(end.hash, entry)) {
        return wrong(seq, `entry ${seq} is not what was written there`);
      }
      const other = known.find((one) => one.seq === seq && one.hash !== entry.hash);
      if (other) return wrong(seq, `entry ${seq} is not the one ${other.of}`);
      end = { seq, hash: entry.hash };
    }
    if (page.length === 0) break;
    // Hashing a page takes a while. Other requests run before the next page, even on a store in memory.
    await nextTurn();
  }
  for (const { seq, of } of known) {
    if (end.seq < seq)
      return wrong(end.seq + 1, `the chain ends before entry ${seq}, the one ${of}`);
  }
  const written = await endOf(log);
  if (!before || !written) return wrong(end.seq + 1, "the record of the chain's end was deleted");
  if (end.seq > written.seq) {
    return wrong(
      written.seq + 1,
      `entry ${written.seq + 1} lies after the end that the store has recorded`,
    );
  }
  return { ok: true, entries: end.seq, head: end };
}

/** Null if the record was deleted. */
async function endOf(log: Pick<AuditLog, "head">): Promise<ChainEnd | null> {
  try {
    return await log.head();
  } catch (error) {
    if (error instanceof MissingEndError) return null;
    throw error;
  }
}
