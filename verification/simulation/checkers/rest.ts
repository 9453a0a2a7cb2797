/** What must be so once everything has healed: each function returns what is not yet so. */
import type { Unsettled } from "../simulation.js";

/** While nothing fails and work is short, each waiter is granted its lease within this time. */
const LONGEST_WAIT_TTLS = 25;
/** Steps of the work after which it is seen to go on. */
const ENOUGH_STEPS = 50;

/** No waiter from before may still wait, and none may wait too long. Times are in true time. */
export function lateWaiters(
  waiting: Iterable<readonly [name: string, sinceMs: number]>,
  { healedAtMs, nowMs, ttlMs }: Readonly<Record<"healedAtMs" | "nowMs" | "ttlMs", number>>,
): Unsettled[] {
  return [...waiting]
    .filter(([, sinceMs]) => sinceMs <= healedAtMs || nowMs - sinceMs >= LONGEST_WAIT_TTLS * ttlMs)
    .map(([name, sinceMs]) => {
      const what = `${name} has waited for ${Math.round(nowMs - sinceMs)} ms`;
      return { property: "waiters", what };
    });
}

/** Each machine must have worked since. */
export function idleMachines(
  machines: readonly { readonly name: string }[],
  done: ReadonlyMap<string, number>,
): Unsettled[] {
  return machines
    .filter(({ name }) => !done.get(name))
    .map(({ name }) => {
      return { property: "liveness", what: `${name} has not worked since everything healed` };
    });
}

/** The work must go on. */
export function idleWork(steps: number): Unsettled[] {
  if (steps >= ENOUGH_STEPS) return [];
  const what = `the work ran ${steps} steps since everything healed`;
  return [{ property: "liveness", what }];
}

/** Each of `count` shards must have one holder, and no member more than its share. */
export function unevenShards(held: readonly (readonly number[])[], count: number): Unsettled[] {
  const unsettled: Unsettled[] = [];
  const all = held.flat().sort((a, b) => a - b);
  const parts = Array.from({ length: count }, (_, shard) => shard);
  if (String(all) !== String(parts)) {
    const what = `held in the end: ${all.join(" ")} of ${count}`;
    unsettled.push({ property: "liveness", what });
  }
  const loads = held.map((own) => own.length);
  if (Math.max(...loads) - Math.min(...loads) > 1) {
    unsettled.push({ property: "shards are even", what: `in the end ${loads.join(", ")}` });
  }
  return unsettled;
}
