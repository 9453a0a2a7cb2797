/** What a held lease asks of its store and of its client. */
import type { ReleaseOutcome, RenewOutcome } from "./port.js";
import type { ThreadRenewals } from "./thread.js";

/** What the store can do with a grant; each call is bounded by its timeout. */
export interface GrantActions<Held> {
  renew(timeoutMs: number, ttlMs?: number): Promise<RenewOutcome>;
  /** @throws INVALID_OPTION for a TTL that the store does not grant */
  checkTtl?(ttlMs: number): void;
  release(timeoutMs: number): Promise<ReleaseOutcome>;
  /** The store stays open for a call that no caller waits for. */
  keepOpenFor?(call: Promise<unknown>): void;
  /** The grant is over for its holder: lost or released. */
  ended?(lease: Held): void;
  /** Set if another thread renews the grant as well. */
  readonly thread?: ThreadRenewals | undefined;
}
