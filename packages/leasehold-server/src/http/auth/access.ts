/**
 * Access control: each route is declared with its need (route-rules.ts), checked before its handler runs.
 *
 *   request ──▶ route ──▶ its need ──▶ public: continue
 *                 │          └─▶ key, role and prefixes sufficient? ──▶ continue, or 401, 403
 *                 ├── without a need ──▶ 403: access must be granted explicitly
 *                 └── no route (404, 405) ──▶ requires any key, so that only callers learn which routes exist
 *
 * lease-calls.ts and grants.ts check which resources a holder may use, with `checkResources` of caller.ts.
 */
import type { Role } from "leasehold/internal";
import { withArticle } from "../../protocol/index.js";
import { ProblemError } from "../problems.js";
import { type Caller, covers, describePrefixes, isIdentity, TASK_PREFIX } from "./caller.js";

/**
 * public: no key; scrape: metrics; read: named resources; readTasks: tasks and their generator; readAll: lists of
 * everything; hold: leases; work: tasks; operate: leases and tasks of others; administer: keys and limits.
 */
export type Need = keyof typeof NEEDS;

interface Requirement {
  readonly roles: readonly Role[];
  /** For holders: one of the key's prefixes must be a prefix of this. */
  readonly below?: string;
}

const ALL = ["viewer", "holder", "operator", "admin"] as const;

export const NEEDS = {
  public: { roles: ["scraper", ...ALL] },
  scrape: { roles: ["scraper", ...ALL] },
  read: { roles: ALL },
  readTasks: { roles: ALL, below: TASK_PREFIX },
  readAll: { roles: ALL, below: "" },
  hold: { roles: ["holder", "admin"] },
  work: { roles: ["holder", "admin"], below: TASK_PREFIX },
  operate: { roles: ["operator", "admin"] },
  administer: { roles: ["admin"] },
} as const satisfies Record<string, Requirement>;

/** The needs that the caller satisfies, without those that every key does. */
export function mayOf(caller: Caller): Need[] {
  const needs = Object.keys(NEEDS) as Need[];
  return needs.filter((need) => {
    const { roles, below }: Requirement = NEEDS[need];
    const may = roles.includes(caller.role) && (below === undefined || covers(caller, below));
    return may && need !== "public" && need !== "scrape";
  });
}

/** @throws FORBIDDEN */
export function checkMay(caller: Caller, need: Need | null | undefined): void {
  if (need === null) return;
  if (need === undefined) throw new ProblemError("FORBIDDEN", "this route has no access rule");
  const { roles, below }: Requirement = NEEDS[need];
  if (!roles.includes(caller.role)) {
    const others = roles.join(" or ");
    const detail = isIdentity(caller)
      ? `your identity has the role ${caller.role} here, which cannot do this: use an identity of ${others}, or ask for that role (--oidc-role of the server)`
      : `${withArticle(caller.role)}'s key cannot do this: use a key of ${others}`;
    throw new ProblemError("FORBIDDEN", detail);
  }
  if (below !== undefined && !covers(caller, below)) {
    const what = below === "" ? 'the prefix ""' : `a prefix of "${below}"`;
    throw new ProblemError("FORBIDDEN", `this needs ${what}: ${describePrefixes(caller)}`);
  }
}
