/**
 * What remains of grants that have ended, as a port. A lease store keeps the last grant of each
 * resource, live or ended; the history keeps those before it, for people to look at. It takes part in
 * no decision, so it is written after the fact, and may miss what happened where nobody recorded.
 */
import type { Key, LeaseState, LeaseView, Page } from "../lease/index.js";

/** For how long ended grants are kept, here and in the lease store itself. */
export const KEEP_HISTORY_MS = 7 * 24 * 3_600_000;

export interface HistoryQuery {
  readonly namespace: string;
  /** Only grants of this resource. */
  readonly resource?: string;
  /** Only grants that ended like this; default any. */
  readonly states?: readonly Exclude<LeaseState, "live">[];
  /** At most this many; default 100. */
  readonly limit?: number;
  /** `nextCursor` of the page before. */
  readonly cursor?: string;
}

/** Append-only, but for what has become too old. Every grant in it has ended: `remainingMs` is 0. */
export interface GrantHistory {
  /** Adds ended grants; one that is there already stays as it is. */
  append(grants: readonly LeaseView[]): Promise<void>;
  /** The latest grant first (by token, which orders all grants of a store with a clock). */
  list(query: HistoryQuery): Promise<Page<LeaseView>>;
  find(key: Key, grantId: string): Promise<LeaseView | null>;
  /** Deletes what ended more than `olderThanMs` ago; how many. */
  collect(olderThanMs: number): Promise<number>;
}
