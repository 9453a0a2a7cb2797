/**
 * What an engine does for the rules: it loads keys, and saves changes to them. It decides nothing.
 *
 *   batch ──▶ load(keys) ──▶ the rules (lease-steps.ts) ──▶ held, lost, ended, notHeld: answered, nothing is written
 *                 ▲                  │ changes
 *                 │ conflict         ▼
 *                 └────────── save(changes): each only if its key is as it was loaded
 *
 * - One clock decides: `load` reads it, and all times are computed from that. A grant counts for its holder from before the
 *   request was sent, so the earlier time is safe.
 * - No lock is held between load and save, so a client that is paused there blocks no other client.
 * - A version covers the record and the pause of a key, and not its waiters: otherwise each waiter that joins would make the
 *   holder's renewal a conflict. It is unique for each write, and a key that is deleted and made again has a new one.
 */
import type { Failed, Key, LeaseRecord, LeaseView, QueuedWaiter } from "../lease/index.js";

/** A key to load. */
export interface KeyToLoad extends Key {
  /** Their queue positions are needed. */
  readonly leaseIds: readonly string[];
}

/** Where a lease id stands in the wait queue of its key. */
export interface QueuePosition {
  /** How many live waiters are before it. */
  readonly ahead: number;
  readonly expiresAtMs: number;
}

/** The live waiters of a key. */
export interface LoadedQueue {
  readonly count: number;
  /** The holder that the first one names; empty if there is none. */
  readonly firstHolder: string;
  /** The lease ids among those asked for that have a position. */
  readonly positions: ReadonlyMap<string, QueuePosition>;
}

/** A queue without waiters. */
export const EMPTY_QUEUE: LoadedQueue = { count: 0, firstHolder: "", positions: new Map() };

/** A key, as it was loaded. */
export interface Loaded<Version> {
  /** Null: none. A key that was paused and never leased has none, and a version. */
  readonly record: LeaseRecord | null;
  readonly version: Version;
  readonly isPaused: boolean;
  /** A new grant has at least this token: above those of collected records, and where records can be lost, by the clock. */
  readonly leastToken: number;
  /**
   * Null: it was not loaded. An engine for which a queue costs little always loads it: a caller that does not wait is then
   * granted a free resource on the first load.
   */
  readonly queue: LoadedQueue | null;
  /**
   * Until when the holder of the loaded grant may trust it, where others count from later. Null: unknown before the grant is
   * written again. Default: until its record expires.
   */
  readonly trustedUntilMs?: number | null;
  /** Shows the last grant to a request that replaces it; null: it is another program's. Default: by its record. */
  readonly view?: () => LeaseView | null;
}

/** A key as it was at a time by the store's clock. */
export interface Found<Version> {
  readonly nowMs: number;
  readonly loaded: Loaded<Version>;
}

/** All keys, in the order in which they were asked for. */
export interface LoadedKeys<Version> {
  /** The store's time, in milliseconds. */
  readonly nowMs: number;
  /** Failed: nothing has been read of this key alone, such as one under which another program keeps something else. */
  readonly keys: readonly (Loaded<Version> | Failed)[];
}

/** What becomes of a key. */
export interface Change<Version> extends Key {
  /** The record is written, and waiters are removed, only if this version still stands. */
  readonly version: Version;
  /** The record to write; null: it stays. */
  readonly record: LeaseRecord | null;
  /**
   * The record is that of the loaded grant, which must not have expired meanwhile by the store's clock: time passes without a
   * new version.
   */
  readonly changesGrant: boolean;
  /** Waiters that join, or stay for longer, never for a shorter time. They do so whether or not the version stands. */
  readonly joins: readonly QueuedWaiter[];
  /** This waiter and all before it leave; null: none. */
  readonly served: string | null;
  /**
   * These leave. Where nothing else is to be saved, they may do so whether or not the version stands. If one of them is the first by
   * then, because others have left since the load, and the resource is free, then the first one that remains is notified.
   */
  readonly withdrawn: readonly string[];
  /** The first waiter that remains is notified. */
  readonly wakes: boolean;
}

/**
 * Whether a change may still be saved at a key whose version stands, for a save that runs in this process: time has passed since the
 * load, and records may have been made and collected.
 * @param current the record of the key now, and the largest token of collected records
 * @example
 * ```ts
 * import { mayStillSave, rules } from "leasehold/port";
 *
 * const grant = { namespace: "default", resource: "report", leaseId: "a".repeat(48) };
 * const { record } = rules.acquire(null, { ...grant, holder: "web-1", ttlMs: 1_000 }, 0, () => 7);
 * const change = { record, changesGrant: false };
 * console.log(mayStillSave(change, { record: null, tokenFloor: 6 }, 999));
 * console.log(mayStillSave(change, { record: null, tokenFloor: 7 }, 999));
 * console.log(mayStillSave({ record, changesGrant: true }, { record, tokenFloor: 0 }, 1_000));
 * ```
 */
export function mayStillSave(
  { record, changesGrant }: Pick<Change<unknown>, "record" | "changesGrant">,
  current: { readonly record: LeaseRecord | null; readonly tokenFloor: number },
  nowMs: number,
): boolean {
  if (record === null) return true;
  if (changesGrant) return current.record !== null && nowMs < current.record.expiresAtMs;
  if (current.record === null && record.token <= current.tokenFloor) return false;
  return nowMs < record.expiresAtMs;
}

/** What a lean statement of an engine has decided of requests for different keys, and loaded for the rules. */
export interface LeanAnswers<Outcome, Version> {
  /** The time of what it has loaded. */
  readonly nowMs: number;
  /** Null: the rules decide. */
  readonly outcomes: readonly (Outcome | null)[];
  /** Null: its key is not loaded. */
  readonly loaded: readonly (Loaded<Version> | null)[];
  /** Whether the request has joined the queue of its key since that was loaded. */
  readonly joined: readonly boolean[];
}

/**
 * Decides at once what is simple of a batch, each key once.
 * @throws anything: each request may have taken effect
 */
export type Lean<Asked, Outcome, Version> = (
  requests: readonly Asked[],
  timeoutMs: number,
) => Promise<LeanAnswers<Outcome, Version>>;

/** A change that was saved, with what the engine alone knows of its grant. */
export interface Saved {
  /** Default: the token of the record that was to be saved. */
  readonly token?: number;
  /** How long the holder may trust the grant from the time of the load, where that ends before its record expires. */
  readonly remainingMs?: number;
  /** When the resource of a revoked grant is free, from the time of the load. Default: when its record expires. */
  readonly freeInMs?: number;
}

/** What became of a change: saved, not saved, or as the key was found instead. */
export type SaveResult<Version> = boolean | Saved | Found<Version> | Failed;

/** An engine whose keys others may change between load and save. */
export interface Engine<Version> {
  /**
   * What is known of a key without a call; null: nothing. It may be wrong: only a change of the record that is saved rests on it,
   * and no answer.
   */
  guess?(key: KeyToLoad): Found<Version> | null;
  /**
   * @param needsQueue whether the wait queues are needed. Otherwise an engine may leave them out
   * @throws anything: nothing has been written
   */
  load(
    keys: readonly KeyToLoad[],
    needsQueue: boolean,
    timeoutMs: number,
  ): Promise<LoadedKeys<Version>>;
  /**
   * Never waits for another transaction. Beside the version it checks what {@link mayStillSave} does: that the grant which is
   * extended or ended has not expired, that a new one is not over, and that its token is above those of collected records.
   * @param nowMs the time of the load
   * @returns which changes were saved. The others are decided anew, but for those that failed alone: on what was found, or on
   *   another load
   * @throws anything: each change may have been saved
   */
  save(
    changes: readonly Change<Version>[],
    nowMs: number,
    timeoutMs: number,
  ): Promise<readonly SaveResult<Version>[]>;
  /** Called before a grant is answered that was read and not written: a standby may not have confirmed it yet. */
  confirm?(timeoutMs: number): Promise<void>;
  /** The outcome of requests for which `load` or `save` threw this; throws what is a mistake of the code. */
  failed(error: unknown): Failed;
}

/** An engine with one writer. */
export interface Transactions {
  /**
   * Runs the work in one transaction, which is rolled back if it throws.
   * @param timeoutMs default: the engine's
   * @throws anything: `failed` says whether the transaction may have been committed
   */
  transact<T>(work: (transaction: Transaction) => T, timeoutMs?: number): T | Promise<T>;
  /** The outcome of the requests of a transaction that threw this; throws what is a mistake of the code. */
  failed(error: unknown): Failed;
}

/** No one else changes the keys meanwhile. */
export interface Transaction {
  /** The store's time, in milliseconds: one for the transaction. */
  readonly nowMs: number;
  /** @param leaseId its queue position is needed; undefined: none is */
  load(key: Key, leaseId: string | undefined): Loaded<null>;
  save(change: Change<null>): void;
}
