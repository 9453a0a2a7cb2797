/**
 * The port between `once` and the databases that keep its records: which keys have succeeded, and which have failed how
 * often. The work of a key runs under a lease on the resource `once:KEY` in the same database. A record is made under the
 * token of that lease, so that a holder whose lease has ended makes none.
 *
 *   no record ──▶ work under the lease ──▶ succeed ──▶ done, for ever or for keepMs
 *       ▲              │
 *       │              └── fail ──▶ failing: again from nextAt on
 *       │                              └── the maxAttempts-th time ──▶ failed, until an operator retries it
 *       └── the lease expires (the process died): nothing is recorded
 */
import type { CallOptions, Failed, LeaseStore, Page, SqlTransaction } from "../lease/index.js";
import type { Json } from "../tasks/port.js";

/** The record of a key. A key without a record is free to be worked on. */
export interface OnceView {
  readonly namespace: string;
  readonly key: string;
  readonly state: OnceState;
  /** What the work returned; null if it could not be kept, and unless done. */
  readonly value: Json;
  /** Who did it, or who failed last: the holder of the lease. */
  readonly by: string;
  /** When it was done, or failed last, by the store's clock, as ISO 8601. */
  readonly at: string;
  /** The fencing token of that lease. */
  readonly token: number;
  /** How often the work has failed before, since it was retried last. */
  readonly failures: number;
  /** The error of the last failure; null if it never failed, or is done. */
  readonly error: string | null;
  /** How long until the next attempt, in milliseconds; 0 unless `failing`. */
  readonly nextInMs: number;
  /** When a record that is done ends, as ISO 8601; null: never. */
  readonly keepUntil: string | null;
}

/** `failing`: the next caller tries again; `failed`: no caller does, until an operator retries it. */
export type OnceState = "done" | "failing" | "failed";

/** The key of work that succeeds at most once. */
export interface OnceKey {
  readonly namespace: string;
  /** 1 to 200 bytes. */
  readonly key: string;
}

/** A key, and the lease on {@link resourceOf} under which its work ran. */
export interface OnceGrant extends OnceKey {
  readonly leaseId: string;
  readonly token: number;
}

/** Records that the work of a key has succeeded. */
export interface SucceedRequest extends OnceGrant {
  /** Up to {@link VALUE_BYTES} of JSON. */
  readonly value: Json;
  /** How long the record is kept, in milliseconds; null: for ever. */
  readonly keepMs: number | null;
}

/** `refused`: the lease has ended, and no caller has succeeded yet. */
export type SucceedOutcome =
  /** By this grant, now or in an earlier call. */
  | { readonly status: "recorded" }
  /** By another one: its holder, and when. */
  | { readonly status: "done"; readonly by: string; readonly at: string }
  | { readonly status: "refused" }
  | Failed;

/** Records that the work of a key has failed. */
export interface FailOnceRequest extends OnceGrant {
  readonly error: string;
  /** After so many failures no caller tries again; null: there is no such number. */
  readonly maxAttempts: number | null;
  /** How long the next attempt waits, in milliseconds. */
  readonly retryDelayMs: number;
}

/** What became of the record of a failure. `refused`: the grant had ended. */
export type FailOnceOutcome =
  /** By this grant, now or in an earlier call. */
  | { readonly status: "recorded"; readonly state: "failing" | "failed"; readonly failures: number }
  | { readonly status: "refused" }
  | Failed;

/** Options of the record of a success. */
export interface SucceedOptions extends CallOptions {
  /** Makes the record in this transaction: it exists once that commits. The lease goes on. SQL stores only. Default: in one of its own. */
  readonly client?: SqlTransaction;
}

/** Which keys of a namespace to list. */
export interface OnceQuery {
  readonly namespace: string;
  /** Only keys that begin with it. */
  readonly prefix?: string;
  readonly states?: readonly OnceState[];
  /** At most this many; default 100. */
  readonly limit?: number;
  readonly cursor?: string;
}

/** The records of `once`. Its failures are outcomes, as in lease/port.ts; reads throw. */
export interface OnceStore {
  /** Where the leases of the work are. */
  readonly leases: LeaseStore;
  get(key: OnceKey): Promise<OnceView | null>;
  /** By key. */
  list(query: OnceQuery): Promise<Page<OnceView>>;
  /**
   * Records a success and ends the lease, in one step; with `client` the lease goes on. A repeated call of the same grant
   * is `recorded` again.
   */
  succeed(request: SucceedRequest, options?: SucceedOptions): Promise<SucceedOutcome>;
  /** Counts a failure and ends the lease, in one step. A repeated call of the same grant is `recorded` again, as the first. */
  fail(request: FailOnceRequest, options?: CallOptions): Promise<FailOnceOutcome>;
  /** Forgets the failures of a key, so that the next caller tries again. False: there were none. */
  retry(key: OnceKey): Promise<boolean>;
  /** Deletes the record of a key, whatever it says: its work may run again. False: there was none. */
  delete(key: OnceKey): Promise<boolean>;
  /** Deletes records whose time is over. @returns how many */
  collect(): Promise<number>;
}

/** The longest value of a record, in bytes of JSON as UTF-8. */
export const VALUE_BYTES = 64 * 1024;
/** The longest key: with the prefix it is the name of a resource. */
export const KEY_BYTES = 200;

/** The resource whose lease the work of a key runs under. */
export function resourceOf(key: string): string {
  return `once:${key}`;
}
