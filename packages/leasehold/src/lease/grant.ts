/** A grant as its holder receives it, and how the holder keeps it. */
import type { LeaseId } from "../env/index.js";
import type { Instant } from "./trust.js";

/** How a lease is renewed; see AcquireOptions for each. */
export interface KeepOptions {
  readonly ttlMs: number;
  readonly autoRenew: boolean;
  readonly renewIntervalMs: number;
  readonly marginMs: number;
  readonly driftRatio: number;
  readonly stopOnRenewError: boolean;
}

/** The grant as the store answered it, and the time at which the request was sent. */
export interface GrantedLease {
  readonly resource: string;
  readonly holder: string;
  readonly leaseId: LeaseId;
  /** Null where the store has none. */
  readonly token: number | null;
  readonly remainingMs: number;
  readonly sent: Instant;
}
