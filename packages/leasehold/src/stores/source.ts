/** The shape of an opened store, the same for every engine. */

import type { Backing, Control, GrantHistory, RemoteOperator } from "../control/index.js";
import type { Env } from "../env/index.js";
import type { Key, LeaseholdError, LeaseStore } from "../lease/index.js";
import type { OnceStore } from "../once/port.js";
import type { TaskStore } from "../tasks/port.js";
import type { ScheduleStore } from "../tasks/schedules/port.js";

/** One setting of an engine on which leases depend. */
export interface Diagnosis {
  /** The setting, by the engine's own name if it has one. */
  readonly what: string;
  readonly value: string;
  /** `doubtful`: possibly intended; `wrong`: leases may be lost or granted twice. */
  readonly verdict: "fine" | "doubtful" | "wrong";
  /** What to do about it; null if the setting is fine. */
  readonly remedy: string | null;
}

/** A step of the migration of a database. */
export interface MigrationStep {
  readonly name: string;
  /** When it was taken, in ISO 8601; null if it remains. */
  readonly appliedAt: string | null;
  /** What it sends to the database, as one transaction; empty for a step of a newer release, which was taken. */
  readonly sql: string;
}

/** A contender in the wait queue of a store. */
export interface QueuedWaiter {
  readonly holder: string;
  /** The public name of the grant that it waits for. */
  readonly grantId: string;
}

/** The parts that every engine opens. The caller that opened it closes it. */
export interface LeaseStores {
  /** The only namespace that it serves: that of a server's API key. Absent: any. */
  readonly namespace?: string;
  readonly leases: LeaseStore;
  readonly tasks?: TaskStore;
  /** The records of `once`; absent if the engine keeps leases only. */
  readonly once?: OnceStore;
  /** The schedules of tasks; absent if the engine keeps leases only. */
  readonly schedules?: ScheduleStore;
  /** Absent if the engine cannot store ended grants, or if the server behind it stores them. */
  readonly history?: GrantHistory;
  /** Keys, the audit, pauses and limits; absent if the server behind this store manages them. */
  readonly control?: Control;
  /** Operator actions, if the server behind this store enters them in its audit. */
  readonly operator?: RemoteOperator;
  /** Where a server keeps state of its own; absent if the engine keeps leases only. */
  readonly backing?: Backing;
  /**
   * Reads the engine's settings for `leasehold doctor`; absent if the engine offers no way to read
   * them.
   */
  diagnose?(): Promise<readonly Diagnosis[]>;
  /** The waiters for a resource, the head of the queue first, for `leasehold why`; absent where they cannot be listed. */
  readonly waiters?: (key: Key) => Promise<readonly QueuedWaiter[]>;
  /** Of a server: why it refuses this client's acquires of a resource, even a free one; null: it does not. */
  readonly denied?: (key: Key) => Promise<{
    readonly code: "FORBIDDEN" | "LIMIT_REACHED";
    readonly detail: string;
  } | null>;
  /**
   * Resolves when an engine in this process has stopped, as PGlite does on a full disk, with what all later calls
   * reject with: end the process. Absent for other engines.
   */
  readonly stopped?: Promise<LeaseholdError>;
  close(): Promise<void>;
}

/** A store that has every part: SQL, memory, or a Leasehold server. */
export interface Stores extends LeaseStores {
  readonly tasks: TaskStore;
}

/** A store to open that needs more than a URL, such as `postgres({ pool })`. */
export interface StoreSource<Opened extends LeaseStores = LeaseStores> {
  /** How long `connect` waits for the opening by default, in milliseconds. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /**
   * @param timeoutMs how long the caller waits, in milliseconds; transient failures are retried within
   *   it
   */
  open(env: Env, timeoutMs?: number): Promise<Opened>;
  /**
   * Brings the tables up to date without opening stores; absent if the engine has no tables of ours.
   * @param own statements of the program for tables of its own in the same schema, run after the steps. Each must be one
   *   that may be repeated. Default: none
   */
  migrate?(env: Env, own?: readonly string[]): Promise<readonly string[]>;
  /** All steps of {@link StoreSource.migrate}, without taking any; absent if the engine has no tables of ours. */
  plan?(env: Env): Promise<readonly MigrationStep[]>;
}

/**
 * Names a store: a URL (`memory:NAME`, `pglite:DIR`, `postgres://...`, `redis://...`, `http://...`), or
 * the result of an engine's function (`postgres({ pool })`, `memory()`). `memory:` and `pglite:` without a name keep
 * everything in this process, for tests.
 */
export type Source = string | URL | StoreSource;
