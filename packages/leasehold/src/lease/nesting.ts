/**
 * Which leases the calling code runs under, so that a run within a run of one resource is refused instead
 * of waiting for itself. A map of the held leases cannot tell: a concurrent caller may well wait.
 */
import type { Scope } from "../env/index.js";
import type { HeldLease } from "./held-lease.js";

/** Calls the work under the lease. */
export function runUnder<T>(scope: Scope | undefined, lease: HeldLease, work: () => T): T {
  if (!scope) return work();
  return scope.run({ lease, outer: scope.getStore() }, work);
}

/** Whether the calling code runs under this lease, which then ends after it. */
export function isUnder(scope: Scope | undefined, lease: HeldLease | undefined): boolean {
  for (let at = scope?.getStore(); at; at = at.outer) if (at.lease === lease) return true;
  return false;
}
