import type { LeaseView } from "../../../packages/leasehold/src/lease/index.js";

/** A live lease of namespace `n` and holder `h`, as a list shows it, but for what `more` says. */
export function leaseView(resource: string, more: Partial<LeaseView> = {}): LeaseView {
  return {
    namespace: "n",
    resource,
    holder: "h",
    token: 1,
    state: "live",
    ttlMs: 1,
    remainingMs: 1,
    grantId: "0".repeat(16),
    grantedAt: null,
    renewedAt: null,
    expiresAt: null,
    metadata: null,
    ...more,
  };
}
