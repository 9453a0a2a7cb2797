/** What must have been seen, by count, for the sentences of docs/guarantees.md to be true. */
import { EACH, type Seen } from "./failover.js";
import { EACH as TASKS } from "./task-work.js";

/** So many, as many as of something else, or: */
type Claim = number | "none" | "some" | keyof Seen;
export type Claims = Readonly<Partial<Record<keyof Seen, Claim>>>;

/** Whatever was not lost is as it was. */
const ALWAYS = {
  doubledGrants: "none",
  keptGrants: EACH,
  strayGrants: "none",
  undoneTasks: "none",
} as const satisfies Claims;

/** Two believe until the first one asks; a resource without a fence suffers. */
export const LOSES = {
  lostGrants: "some",
  lateGrants: "some",
  lostRenewals: EACH,
  lostReleases: EACH,
  believedAtOnce: "lostGrants",
  heardAtRenewal: "believedAtOnce",
  unfencedViolations: "believedAtOnce",
} as const satisfies Claims;

export const LOSES_NOTHING = {
  answeredGrants: "some",
  lostGrants: "none",
  answeredTasks: "some",
  lostTasks: "none",
  lostCompletions: "none",
  cancelledWaits: "some",
} as const satisfies Claims;

/** Clients go on: what was granted stays so, and a dead holder's lease goes to the next one, who is alone. */
export const GOES_ON = {
  answeredGrants: "some",
  lostGrants: "none",
  lateGrants: "some",
  believedAtOnce: "none",
  takenOver: EACH,
  smallerTokens: "none",
  fencedViolations: "none",
  refusedWrites: "takenOver",
  unfencedViolations: "takenOver",
} as const satisfies Claims;

/** The second lacks the late tasks, and all completions: those tasks run again. */
export const LOSES_TASKS = {
  lostTasks: "some",
  tasksAddedAgain: "lostTasks",
  lostCompletions: TASKS,
} as const satisfies Claims;

/** The fence refuses each late write, and no other write. */
export const GROWS = {
  smallerTokens: "none",
  fencedViolations: "none",
  refusedWrites: "believedAtOnce",
} as const satisfies Claims;

/** The fence cannot tell who is newer; after the remedy it can. */
export const GOES_BACK = {
  smallerTokens: "some",
  refusedWrites: "some",
  fencedViolations: "some",
  remedied: "lostGrants",
} as const satisfies Claims;

/** In words; nothing, if all is as claimed. */
export function differences(claims: Claims, seen: Seen): string[] {
  const wrong: string[] = [];
  for (const [name, claim] of Object.entries({ ...ALWAYS, ...claims })) {
    const found = seen[name as keyof Seen];
    const holds = claim === "some" ? found > 0 : found === wantedOf(claim, seen);
    if (!holds) wrong.push(`${name}: ${found} instead of ${claim}`);
  }
  return wrong;
}

function wantedOf(claim: Exclude<Claim, "some">, seen: Seen): number {
  if (typeof claim === "number") return claim;
  return claim === "none" ? 0 : seen[claim];
}
