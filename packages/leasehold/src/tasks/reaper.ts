import { type Env, type Repeating, repeat } from "../env/index.js";
import type { TaskStore } from "./port.js";

/** A task of a dead worker is claimable this long after its lease at the latest, and some jitter. */
const REAP_EVERY_MS = 500;

/**
 * Returns tasks of expired leases to the queue, about twice a second, until stopped. Everybody who
 * keeps tasks in a database directly runs one; any number of them may run at once, and a store
 * behind a server (`capabilities.reaps`) needs none here.
 */
export function startReaper(store: TaskStore, env: Env): Repeating {
  if (store.capabilities.reaps) return { stop: () => Promise.resolve() };
  return repeat(env, "reap expired tasks", REAP_EVERY_MS, () => store.reap());
}
