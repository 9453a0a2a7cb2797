/**
 * The port for ended grants. A lease store keeps the last grant of each resource, live or ended; the
 * history keeps the earlier ones, for people. No decision depends on it, so it is written after the fact
 * and lacks grants that no process recorded.
 */
import type { Key, LeaseState, LeaseView, Page } from "../lease/index.js";

/** Which ended grants of a namespace to list. */
export interface GrantHistoryQuery {
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

/** Append-only, except for grants that have become too old. All grants have ended: `remainingMs` is 0. */
export interface GrantHistory {
  /**
   * Adds ended grants. If it rejects, any part of the batch may have been added. A grant that is already
   * there (by namespace, resource and grantId) stays unchanged, so the caller may repeat the batch.
   */
  append(grants: readonly LeaseView[]): Promise<void>;
  /**
   * The latest grant first, as far as the history can tell: by token where tokens come from a clock
   * (SQL stores), so that the order of grants is right but for the differences between clocks; in
   * memory, where the tokens of each resource count from 1, in the order in which they were added.
   * Paging meets each grant once, also while others are added.
   * @throws InvalidOptionError for a cursor that is not from a page
   */
  list(query: GrantHistoryQuery): Promise<Page<LeaseView>>;
  find(key: Key, grantId: string): Promise<LeaseView | null>;
  /** Deletes grants that ended more than `olderThanMs` ago. Returns how many. */
  collect(olderThanMs: number): Promise<number>;
}
