/** What can be opened, and what comes of it: the shape that every engine has. */

import type { Control, GrantHistory, Operator } from "../control/index.js";
import type { Key, LeaseStore } from "../core/index.js";
import type { Env } from "../env/index.js";
import type { GeneratorState, TaskStore } from "../tasks/port.js";

/** Something in how an engine is set up on which leases depend. */
export interface Diagnosis {
  /** The setting, by the engine's own name where it has one. */
  readonly what: string;
  readonly value: string;
  /** `doubtful`: it may be meant so; `wrong`: leases may be lost, or granted twice. */
  readonly verdict: "fine" | "doubtful" | "wrong";
  /** What to do about it; null where it is fine. */
  readonly remedy: string | null;
}

/** A contender in the wait queue of a store. */
export interface QueuedWaiter {
  readonly holder: string;
  /** The public name of the grant that it waits for. */
  readonly grantId: string;
}

/** What every engine keeps. Whoever opened it closes it. */
export interface LeaseStores {
  readonly leases: LeaseStore;
  readonly tasks?: TaskStore;
  readonly generator?: GeneratorState;
  /** Absent where ended grants cannot be kept, or are kept by the server behind this. */
  readonly history?: GrantHistory;
  /** Keys, the audit, pauses and limits; absent where the server behind this keeps them. */
  readonly control?: Control;
  /** Acts of operators, where the server behind this enters them in its audit. */
  readonly operator?: Operator;
  /** What the engine says of its settings, for `leasehold doctor`; absent where it cannot be asked. */
  diagnose?(): Promise<readonly Diagnosis[]>;
  /** The waiters for a resource, the head of the queue first, for `leasehold why`; absent where they cannot be listed. */
  readonly waiters?: (key: Key) => Promise<readonly QueuedWaiter[]>;
  close(): Promise<void>;
}

/** What one place keeps that has everything: SQL, memory, a server of ours. */
export interface Stores extends LeaseStores {
  readonly tasks: TaskStore;
  readonly generator: GeneratorState;
}

/** Stores that are opened with more than a URL can say, such as `postgres({ pool })`. */
export interface StoreSource<Opened extends LeaseStores = LeaseStores> {
  /** @param timeoutMs whoever opens waits as long; what can be tried again within it is */
  open(env: Env, timeoutMs?: number): Promise<Opened>;
  /** Brings the tables up to date without opening stores; absent where an engine has none of ours. */
  migrate?(env: Env): Promise<readonly string[]>;
}

/**
 * `memory:NAME`, `pglite:DIR`, `postgres://...`, `redis://...`, `http://...`, or what an engine's own function
 * (`postgres({ pool })`, `memory()`) has made.
 */
export type Source = string | URL | StoreSource;
