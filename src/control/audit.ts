/**
 * The audit: what operators did, as a chain in which each entry holds the hash of the one before.
 *
 *   hash(n) = SHA-256(JSON [hash(n - 1), seq, at, namespace, actor, action, target, reason, phase,
 *                           details])           hash(0) = 64 zeros, seq from 1 without a gap
 *
 * Whoever changes, deletes, inserts or reorders entries breaks the chain behind them. Whoever cuts
 * off its end, or writes all of it anew, is found out by a checkpoint {seq, hash} that was exported
 * before and kept elsewhere.
 */
import { digestOf } from "../env/index.js";
import type { Page } from "../lease/index.js";

/**
 * done: the act and this entry were committed together. Where they cannot be, an `intent` is written
 * before the act, and its `result` after it; an intent without a result may or may not have been done.
 */
export type AuditPhase = "done" | "intent" | "result";

export interface NewAuditEntry {
  readonly namespace: string;
  /** Who did it: `key:<id>` or, on the command line, `cli:<user>`. */
  readonly actor: string;
  /** What, as `subject.verb`: `lease.revoke`, `key.create`. */
  readonly action: string;
  /** To what: a resource, a task id, a prefix, a key's id. */
  readonly target: string;
  /** Why, in the actor's words; null where none is asked for. */
  readonly reason: string | null;
  readonly phase: AuditPhase;
  /** More about it, as JSON. Never a secret. */
  readonly details: string;
}

export interface AuditEntry extends NewAuditEntry {
  readonly seq: number;
  /** The store's time, ISO 8601. */
  readonly at: string;
  readonly hash: string;
}

/** The end of the chain at some time. */
export interface Checkpoint {
  readonly seq: number;
  readonly hash: string;
}

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

export interface AuditLog {
  /** Adds entries at the end of the chain, in their order. */
  append(entries: readonly NewAuditEntry[]): Promise<readonly AuditEntry[]>;
  /** The latest first. */
  list(query: AuditQuery): Promise<Page<AuditEntry>>;
  /** The chain itself, of all namespaces, in its order: at most `limit` entries behind `afterSeq`. */
  read(afterSeq: number, limit: number): Promise<readonly AuditEntry[]>;
}

export const CHAIN_BEGIN: Checkpoint = { seq: 0, hash: "0".repeat(64) };

/** The entry behind `last`. */
export function chained(last: Checkpoint, entry: NewAuditEntry, at: string): AuditEntry {
  const linked = { ...entry, seq: last.seq + 1, at };
  return { ...linked, hash: hashOf(last.hash, linked) };
}

function hashOf(before: string, entry: Omit<AuditEntry, "hash">): string {
  const { seq, at, namespace, actor, action, target, reason, phase, details } = entry;
  return digestOf(
    JSON.stringify([before, seq, at, namespace, actor, action, target, reason, phase, details]),
  );
}

export type Verification =
  | { readonly ok: true; readonly entries: number; readonly head: Checkpoint }
  /** `seq` is the first place at which the chain is not what it was. */
  | { readonly ok: false; readonly seq: number; readonly problem: string };

/**
 * Reads the whole chain, page by page.
 * @param checkpoint exported before: the chain must still hold it
 */
export async function verifyAudit(
  log: Pick<AuditLog, "read">,
  checkpoint: Checkpoint = CHAIN_BEGIN,
): Promise<Verification> {
  let head = CHAIN_BEGIN;
  for (;;) {
    const page = await log.read(head.seq, 1_000);
    for (const entry of page) {
      const seq = head.seq + 1;
      if (entry.seq !== seq) return { ok: false, seq, problem: `entry ${seq} is missing` };
      if (entry.hash !== hashOf(head.hash, entry)) {
        return { ok: false, seq, problem: `entry ${seq} is not what was written there` };
      }
      head = { seq, hash: entry.hash };
      if (seq === checkpoint.seq && entry.hash !== checkpoint.hash) {
        return { ok: false, seq, problem: `entry ${seq} is not that of the checkpoint` };
      }
    }
    if (page.length === 0) break;
  }
  if (head.seq < checkpoint.seq) {
    const problem = `the chain ends before the checkpoint's entry ${checkpoint.seq}`;
    return { ok: false, seq: head.seq + 1, problem };
  }
  return { ok: true, entries: head.seq, head };
}
