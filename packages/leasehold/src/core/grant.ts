/** A grant as its holder receives it, and how the holder keeps it. */
import type { LeaseId } from "../env/index.js";
import type { HeldLease } from "./held-lease.js";
import type { ReleaseOutcome, RenewOutcome } from "./port.js";
import type { ThreadRenewals } from "./thread.js";
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

/** What the store can do with this grant; each call is bounded by its timeout. */
export interface GrantActions {
  renew(timeoutMs: number, ttlMs?: number): Promise<RenewOutcome>;
  /** @throws INVALID_OPTION for a TTL that the store does not grant */
  checkTtl?(ttlMs: number): void;
  release(timeoutMs: number): Promise<ReleaseOutcome>;
  /** The store stays open for a call that no caller waits for. */
  keepOpenFor?(call: Promise<unknown>): void;
  /** The grant is over for its holder: lost or released. */
  ended?(lease: HeldLease): void;
  /** Set if another thread renews the grant as well. */
  readonly thread?: ThreadRenewals | undefined;
}
