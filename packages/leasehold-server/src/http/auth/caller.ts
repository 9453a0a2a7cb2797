/** The caller of a request. It comes from the credential only, never from the request's content. */
import type { Role } from "leasehold/internal";
import { invalid, ProblemError } from "../problems.js";

/** Leases on tasks are listed as resources with this prefix. */
export const TASK_PREFIX = "task:";

/**
 * Checks that a lease of this name would be one of the lease store.
 * @param path of the name in the request
 * @throws INVALID_REQUEST if it is that of a task: a lease beside the task's own would protect nothing
 */
export function checkNoTask(path: string, resource: string): void {
  if (!resource.startsWith(TASK_PREFIX)) return;
  const problem = `must not begin with "${TASK_PREFIX}": /api/tasks/next acquires the leases on tasks`;
  throw invalid([{ path, problem }]);
}

export interface Caller {
  /** The tenant. */
  readonly namespace: string;
  readonly role: Role;
  /**
   * For a holder: the resources that it may lease begin with one of these; `""` allows all. For an operator: those on which it
   * may act; without any, and without queues, it may act on everything.
   */
  readonly prefixes: readonly string[];
  /** For an operator: the queues on whose tasks it may act. */
  readonly queues?: readonly string[];
  /** For the audit and the logs: `key:<id>`, `oidc:<sub>`, `bootstrap`, or `anyone` while no key is required. */
  readonly actor: string;
  /** The id of its key, or one that is made of the issuer and the subject of its token; null while none is required. */
  readonly keyId: string | null;
  /** When its token or its session ends, by the wall clock. Undefined for keys. */
  readonly untilMs?: number;
  /** For a caller with the bootstrap token instead of a key: creates the first key. */
  readonly bootstrap?: { use<T>(create: () => Promise<T>): Promise<T> };
}

export function callerOf(context: { get(name: "caller"): Caller }): Caller {
  return context.get("caller");
}

/** Whether the caller may use all resources that begin with `prefix`. */
export function covers({ role, prefixes }: Caller, prefix: string): boolean {
  return role !== "holder" || prefixes.some((own) => prefix.startsWith(own));
}

/**
 * Checks resources, or the prefix of a list.
 * @throws FORBIDDEN naming the first one that the caller may not use
 */
export function checkResources(caller: Caller, resources: readonly string[]): void {
  const forbidden = resources.find((resource) => !covers(caller, resource));
  if (forbidden === undefined) return;
  const what = `resources that begin with ${JSON.stringify(forbidden)}`;
  throw new ProblemError("FORBIDDEN", `not ${what}: ${describePrefixes(caller)}`);
}

export function describePrefixes(caller: Caller): string {
  const named = caller.prefixes.map((own) => JSON.stringify(own)).join(", ");
  return `this ${isIdentity(caller) ? "identity" : "key"} is limited to resources that begin with ${named}`;
}

/** Whether an issuer has identified the caller, who has no key. */
export function isIdentity({ untilMs }: Caller): boolean {
  return untilMs !== undefined;
}
