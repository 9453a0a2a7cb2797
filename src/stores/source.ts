/** What can be opened, and what comes of it: the shape that every engine has. */

import type { Control, GrantHistory } from "../control/index.js";
import type { Env } from "../env/index.js";
import type { LeaseStore } from "../lease/index.js";
import type { GeneratorState, TaskStore } from "../tasks/port.js";

/** What every engine keeps. Whoever opened it closes it. */
export interface LeaseStores {
  readonly leases: LeaseStore;
  readonly tasks?: TaskStore;
  readonly generator?: GeneratorState;
  /** Absent where ended grants cannot be kept, or are kept by the server behind this. */
  readonly history?: GrantHistory;
  /** Keys, the audit, pauses and limits; absent where the server behind this keeps them. */
  readonly control?: Control;
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
}

/**
 * `memory:NAME`, `pglite:DIR`, `postgres://...`, `redis://...`, `http://...`, or what an engine's own function
 * (`postgres({ pool })`, `memory()`) has made.
 */
export type Source = string | URL | StoreSource;
