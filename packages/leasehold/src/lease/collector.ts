import { type Env, type Repeating, repeat } from "../env/index.js";
import type { LeaseStore } from "./port.js";

/** How long ended grants are kept so that people can inspect them. */
export const KEEP_ENDED_MS = 7 * 24 * 3_600_000;
const COLLECT_EVERY_MS = 3_600_000;

/**
 * Deletes grants that ended a week ago, about once an hour, until stopped. Without it, resources that
 * are used only once would fill the store. Every client that opens a database directly runs one, and any
 * number may run at once. A client of a server needs none.
 * @param store the lease store, or another store whose entries end
 */
export function startCollector(
  store: Pick<LeaseStore, "collect">,
  env: Env,
  what = "ended leases",
  keepMs: number = KEEP_ENDED_MS,
): Repeating {
  return repeat(env, `collect ${what}`, COLLECT_EVERY_MS, () => store.collect(keepMs));
}
