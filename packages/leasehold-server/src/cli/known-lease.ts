/** What a store knows of a lease, for output. */
import type { LeaseStore, LeaseView } from "leasehold";

/** Null: the store keeps none. */
export interface KnownLease extends Omit<LeaseView, "token" | "ttlMs"> {
  readonly token: number | null;
  readonly ttlMs: number | null;
}

/**
 * Compatibility formats keep neither fencing tokens nor TTLs. The port requires numbers, so their views have 0 and the
 * time that is left.
 */
export function knownOf(
  view: LeaseView,
  { capabilities }: Pick<LeaseStore, "capabilities">,
): KnownLease {
  return capabilities.tokens === false ? { ...view, token: null, ttlMs: null } : view;
}

export function tokenText(token: number | null): string {
  return token === null ? "no token" : `token ${token}`;
}
