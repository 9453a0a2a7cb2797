import { type Env, systemEnv } from "../../env/index.js";
import type { LeaseStore } from "../../lease/index.js";
import { MemoryLeaseState, MemoryLeaseStore } from "./store.js";

/** Options of {@link memory}. */
export interface MemoryOptions {
  /**
   * Stores of one name share their contents for as long as the process lives, also after all of
   * them were closed. Default: a store of its own.
   */
  name?: string;
  /** Clock for tests and simulation; for a shared name, that of the first call counts. */
  env?: Partial<Env>;
}

/** What {@link memory} opens. */
export interface MemoryStores {
  readonly leases: LeaseStore;
}

const shared = new Map<string, MemoryLeaseState>();

/**
 * Stores in this process's memory, for tests, the simulation and programs of one process. Nothing
 * survives the process, tokens neither.
 */
export function memory(options: MemoryOptions = {}): MemoryStores {
  const { name, env } = options;
  const state =
    (name === undefined ? undefined : shared.get(name)) ??
    new MemoryLeaseState(env?.clock ?? systemEnv.clock);
  if (name !== undefined) shared.set(name, state);
  return { leases: new MemoryLeaseStore(state) };
}
