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

import { InvalidOptionError, type Page } from "../core/index.js";
import { digestOf, nextTurn } from "../env/index.js";

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
  /** Its end as those who write remember it, apart from the entries. */
  head(): Promise<Checkpoint>;
}

/**
 * Of a query, for stores: only entries before this one; null: any.
 * @throws InvalidOptionError for a cursor that no page has given
 */
export function beforeSeq({ cursor }: AuditQuery): number | null {
  if (cursor === undefined) return null;
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw new InvalidOptionError("cursor", "must come from a page of the audit");
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
 * Reads the whole chain, page by page, and holds it against the end that those who write remember: a
 * chain cut off or continued by hand does not fit it, unless that was changed too.
 * @param checkpoint exported before, and kept elsewhere: the chain must still hold it
 */
export async function verifyAudit(
  log: Pick<AuditLog, "read" | "head">,
  checkpoint: Checkpoint = CHAIN_BEGIN,
): Promise<Verification> {
  const wrong = (seq: number, problem: string): Verification => ({ ok: false, seq, problem });
  const known = [
    { ...checkpoint, of: "of the checkpoint" },
    { ...(await log.head()), of: "that was written last" },
  ];
  let end = CHAIN_BEGIN;
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
    // To hash so many takes a while: others are served in between, whatever the store.
    await nextTurn();
  }
  for (const { seq, of } of known) {
    if (end.seq < seq)
      return wrong(end.seq + 1, `the chain ends before entry ${seq}, the one ${of}`);
  }
  const written = await log.head();
  if (end.seq > written.seq) {
    return wrong(written.seq + 1, `entry ${written.seq + 1} was added by somebody else`);
  }
  return { ok: true, entries: end.seq, head: end };
}
