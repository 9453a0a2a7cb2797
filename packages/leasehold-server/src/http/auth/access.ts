/**
 * Access control: one table of all routes, checked before a route's handler runs.
 *
 *   request ──▶ route ──▶ its need ──▶ public: continue
 *                 │          └─▶ key, role and prefixes sufficient? ──▶ continue, or 401, 403
 *                 ├── not in the table ──▶ 403: access must be granted explicitly
 *                 └── no route (404, 405) ──▶ requires any key, so that only callers learn which routes exist
 *
 * lease-calls.ts and grants.ts check which resources a holder may use, with `checkResources` of caller.ts.
 */
import type { Context } from "hono";
import { matchedRoutes } from "hono/route";
import type { RouterRoute } from "hono/types";
import type { Role } from "leasehold/internal";
import { withArticle } from "../../protocol/index.js";
import { ProblemError } from "../problems.js";
import type { AppEnv } from "../request.js";
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

const NEEDS = {
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

/** By method and path, as in the OpenAPI document. */
export const ACCESS: Readonly<Record<string, Need>> = {
  "GET /healthz": "public",
  "GET /readyz": "public",
  "GET /openapi.json": "public",
  "GET /metrics": "scrape",

  "POST /api/tasks": "work",
  "POST /api/tasks/next": "work",
  "PUT /api/tasks/{id}/heartbeat": "work",
  "PUT /api/tasks/{id}/complete": "work",
  "PUT /api/tasks/{id}/fail": "work",
  "PUT /api/tasks/{id}/return": "work",
  "POST /api/tasks/heartbeat": "work",
  "POST /api/tasks/complete": "work",
  "POST /api/tasks/fail": "work",
  "POST /api/tasks/return": "work",
  "POST /api/tasks/{id}/cancel": "operate",
  "POST /api/tasks/{id}/retry": "operate",
  "DELETE /api/tasks/{id}": "operate",
  "POST /api/tasks/cancel": "operate",
  "POST /api/tasks/retry": "operate",
  "POST /api/tasks/delete": "operate",
  "POST /api/tasks/bulk": "operate",
  "GET /api/tasks": "readTasks",
  "GET /api/tasks/pending": "readTasks",
  "GET /api/tasks/started": "readTasks",
  "GET /api/tasks/processed": "readTasks",
  "GET /api/tasks/dead": "readTasks",
  "GET /api/tasks/cancelled": "readTasks",
  "GET /api/tasks/expired": "readTasks",
  "GET /api/tasks/counts": "readTasks",
  "GET /api/tasks/leases": "readTasks",
  "GET /api/tasks/{id}": "readTasks",
  "GET /v1/tasks/stats": "readTasks",
  "GET /v1/tasks/keys": "readTasks",
  "GET /v1/tasks/limits": "readTasks",
  "PUT /v1/tasks/limits": "work",
  "POST /v1/tasks/limits": "operate",
  "DELETE /v1/tasks/limits": "operate",
  "POST /v1/tasks/results": "readTasks",
  "GET /v1/tasks/{id}/result": "readTasks",

  "GET /api/generator": "readTasks",
  "POST /api/generator/start": "operate",
  "POST /api/generator/stop": "operate",
  "PUT /api/generator/rate": "operate",

  "POST /api/leases": "hold",
  "PUT /api/leases/renew": "hold",
  "DELETE /api/leases/release": "hold",
  "DELETE /api/leases/{id}": "hold",
  "GET /api/leases": "readAll",
  "GET /api/leases/active": "readAll",
  "GET /api/leases/expired": "readAll",
  "GET /api/leases/renewed": "readAll",
  "GET /api/leases/released": "readAll",
  "GET /api/leases/revoked": "readAll",
  "GET /api/leases/{id}": "read",

  "POST /v1/locks/acquire": "hold",
  "POST /v1/locks/force-unlock": "operate",
  "POST /v1/locks/{leaseId}/renew": "hold",
  "DELETE /v1/locks/{leaseId}": "hold",
  "GET /v1/locks": "read",
  "GET /v1/locks/{leaseId}": "read",

  "POST /v1/leases/acquire": "hold",
  "POST /v1/leases/renew": "hold",
  "POST /v1/leases/release": "hold",
  "POST /v1/leases/revoke": "operate",
  "POST /v1/leases/get": "read",
  "POST /v1/leases/collect": "administer",

  "POST /v1/once/succeed": "hold",
  "POST /v1/once/fail": "hold",
  "POST /v1/once/{key}/retry": "operate",
  "DELETE /v1/once/{key}": "operate",
  "GET /v1/once": "read",
  "GET /v1/once/{key}": "read",

  "PUT /v1/schedules/{name}": "work",
  "POST /v1/schedules/{name}/pause": "operate",
  "POST /v1/schedules/{name}/resume": "operate",
  "POST /v1/schedules/{name}/run": "operate",
  "DELETE /v1/schedules/{name}": "operate",
  "GET /v1/schedules": "readTasks",
  "GET /v1/schedules/{name}": "readTasks",

  "GET /v1/leases": "read",
  "GET /v1/capabilities": "read",
  "GET /v1/events": "read",

  "GET /v1/whoami": "read",
  "GET /v1/overview": "readAll",
  "GET /v1/elections": "readAll",
  "GET /v1/workers": "readAll",
  "GET /v1/activity": "read",
  "GET /v1/refusals": "read",
  "GET /v1/resource": "read",
  "POST /v1/leases/seen": "read",
  "GET /api/tasks/{id}/why": "readTasks",

  "GET /v1/pauses": "read",
  "PUT /v1/pauses": "operate",
  "DELETE /v1/pauses": "operate",
  "GET /v1/contention": "readAll",
  "GET /v1/audit": "operate",
  "GET /v1/audit/verify": "operate",

  "GET /v1/keys": "administer",
  "POST /v1/keys": "administer",
  "POST /v1/keys/{id}/rotate": "administer",
  "DELETE /v1/keys/{id}": "administer",
  "GET /v1/limits": "read",
  "PUT /v1/limits": "administer",
};

/** The matching route in the table's spelling; null: none. */
export function routeOf(context: Context<AppEnv>): string | null {
  return routeIn(matchedRoutes(context));
}

/** The route among all that match a request, in the table's spelling; null: none. */
export function routeIn(matched: readonly Pick<RouterRoute, "method" | "path">[]): string | null {
  // The first match that is not a middleware of all routes. GET routes also answer HEAD.
  const route = matched.find(({ path }) => path !== "/*");
  if (!route || route.method === "ALL") return null;
  return `${route.method} ${route.path.replaceAll(/:(\w+)/g, "{$1}")}`;
}

/** The need of the matching route; null: no route; undefined: a route without an entry in the table. */
export function needOf(context: Context<AppEnv>): Need | null | undefined {
  const route = routeOf(context);
  return route === null ? null : ACCESS[route];
}

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
