/** Who sends a request, as its credential says: never anything in the request itself. */
import type { Role } from "leasehold/internal";
import { ProblemError } from "../problems.js";

/** Tasks have leases of their own, which are listed under these names. */
export const TASK_PREFIX = "task:";

export interface Caller {
  /** Whose resources and tasks these are. */
  readonly namespace: string;
  readonly role: Role;
  /** Of a holder: what it may lease begins with one of these; `""` is any. */
  readonly prefixes: readonly string[];
  /** For the audit and the logs: `key:<id>`, or `anyone` where no key is asked for. */
  readonly actor: string;
  /** The id of its key; null where none is asked for. */
  readonly keyId: string | null;
}

export function callerOf(context: { get(name: "caller"): Caller }): Caller {
  return context.get("caller");
}

/** Whether all that begins with `prefix`, itself included, is the caller's to name. */
export function covers({ role, prefixes }: Caller, prefix: string): boolean {
  return role !== "holder" || prefixes.some((own) => prefix.startsWith(own));
}

/**
 * For resources, and for the prefix of a list.
 * @throws FORBIDDEN naming the first that is not the caller's to name
 */
export function checkResources(caller: Caller, resources: readonly string[]): void {
  const foreign = resources.find((resource) => !covers(caller, resource));
  if (foreign === undefined) return;
  const what = `what begins with ${JSON.stringify(foreign)}`;
  throw new ProblemError("FORBIDDEN", `not ${what}: ${describePrefixes(caller)}`);
}

export function describePrefixes({ prefixes }: Caller): string {
  return `this key is for what begins with ${prefixes.map((own) => JSON.stringify(own)).join(", ")}`;
}
