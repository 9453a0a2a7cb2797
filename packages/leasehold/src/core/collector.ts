import { type Env, type Repeating, repeat } from "../env/index.js";
import type { LeaseStore } from "./port.js";

/** How long ended grants are kept for people to look at. */
export const KEEP_ENDED_MS = 7 * 24 * 3_600_000;
const COLLECT_EVERY_MS = 3_600_000;

/**
 * Deletes grants that ended a week ago, about once an hour, until stopped: resources that are used
 * once and never again would fill the store. Everybody who keeps leases in a database directly runs
 * one; any number of them may run at once, and a store behind a server needs none here.
 * @param store that, or another one whose contents end
 */
export function startCollector(
  store: Pick<LeaseStore, "collect">,
  env: Env,
  what = "ended leases",
  keepMs: number = KEEP_ENDED_MS,
): Repeating {
  return repeat(env, `collect ${what}`, COLLECT_EVERY_MS, () => store.collect(keepMs));
}
