/**
 * Operators that are limited to some resources and queues:
 *
 *   an action ─┬─ on resources ──▶ each begins with a prefix of the key?
 *              ├─ on tasks ──────▶ the queue of each is one of the key's?
 *              └─ on anything else, or on all of a tenant ──▶ 403
 *
 * They read what every operator reads. A route that needs `operate` and that this module does not list is closed to
 * them, so that a new one is too.
 */
import { ProblemError } from "../problems.js";
import type { Need } from "./access.js";
import { type Caller, isIdentity } from "./caller.js";

/** The operations whose handlers check what they are about. */
const CHECKED: ReadonlySet<string> = new Set([
  "POST /v1/leases/revoke",
  "POST /v1/locks/force-unlock",
  "PUT /v1/pauses",
  "DELETE /v1/pauses",
  "POST /api/tasks/{id}/cancel",
  "POST /api/tasks/{id}/retry",
  "DELETE /api/tasks/{id}",
  "POST /api/tasks/cancel",
  "POST /api/tasks/retry",
  "POST /api/tasks/delete",
  "POST /api/tasks/bulk",
]);

/** Whether an operator may act on some resources or queues alone. */
export function isLimited({ role, prefixes, queues = [] }: Caller): boolean {
  return role === "operator" && prefixes.length + queues.length > 0;
}

/** @throws FORBIDDEN for a limited operator on a route that does not check what it is about */
export function checkScope(
  caller: Caller,
  need: Need | null | undefined,
  route: string | null,
): void {
  if (need !== "operate" || !isLimited(caller) || CHECKED.has(route ?? "")) return;
  throw refused(caller, "an action that concerns the whole tenant");
}

/**
 * @param prefixes resources, or the prefixes of all that an action concerns
 * @throws FORBIDDEN naming the first one that is outside
 */
export function checkOperates(caller: Caller, prefixes: readonly string[]): void {
  if (!isLimited(caller)) return;
  const outside = prefixes.find((name) => !caller.prefixes.some((own) => name.startsWith(own)));
  if (outside === undefined) return;
  throw refused(caller, `resources that begin with ${JSON.stringify(outside)}`);
}

/**
 * @param queue undefined: all queues
 * @throws FORBIDDEN
 */
export function checkOperatesQueue(caller: Caller, queue: string | undefined): void {
  if (!isLimited(caller)) return;
  if (queue !== undefined && caller.queues?.includes(queue)) return;
  throw refused(
    caller,
    queue === undefined ? "tasks of all queues" : `the queue ${JSON.stringify(queue)}`,
  );
}

function refused(caller: Caller, what: string): ProblemError {
  const { role, prefixes, queues = [] } = caller;
  const listed = (names: readonly string[]) => names.map((name) => JSON.stringify(name)).join(", ");
  const parts = [
    ...(prefixes.length > 0 ? [`resources that begin with ${listed(prefixes)}`] : []),
    ...(queues.length > 0 ? [`the queues ${listed(queues)}`] : []),
  ];
  const limits = parts.join(" and ");
  const by = isIdentity(caller) ? "a rule of --oidc-role limits your identity" : undefined;
  const detail = `not ${what}: ${by ?? `this ${role}'s key is limited`} to ${limits}`;
  return new ProblemError("FORBIDDEN", detail);
}
