/**
 * What remains of grants that have ended, as a port. A lease store keeps the last grant of each
 * resource, live or ended; the history keeps those before it, for people to look at. It takes part in
 * no decision, so it is written after the fact, and may miss what happened where nobody recorded.
 */
import type { Key, LeaseState, LeaseView, Page } from "../core/index.js";

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
  /**
   * Adds ended grants: all of them or, when it rejects, nobody knows which. One that is there already
   * (by namespace, resource and grantId) stays as it is, so that a batch may be repeated.
   */
  append(grants: readonly LeaseView[]): Promise<void>;
  /**
   * The latest grant first, as far as the history can tell: by token where tokens come from a clock
   * (SQL stores), so that the order of grants is right but for the differences between clocks; in
   * memory, where the tokens of each resource count from 1, in the order in which they were added.
   * Paging meets each grant once, also while others are added.
   * @throws InvalidOptionError for a cursor that no page has given
   */
  list(query: HistoryQuery): Promise<Page<LeaseView>>;
  find(key: Key, grantId: string): Promise<LeaseView | null>;
  /** Deletes what ended more than `olderThanMs` ago; how many. */
  collect(olderThanMs: number): Promise<number>;
}
