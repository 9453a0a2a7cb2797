/** A second thread that renews a client's leases, as the client sees it. See renewal-thread/ and docs/decisions/0019. */
import type { Clock, Env } from "../env/index.js";
import type { GrantedLease, KeepOptions } from "./grant.js";
import type { RenewOutcome } from "./port.js";
import type { Instant } from "./trust.js";

/** What a store answered to a renewal. */
export type RenewalAnswer =
  | Pick<Extract<RenewOutcome, { status: "renewed" }>, "status" | "token" | "remainingMs">
  | Extract<RenewOutcome, { status: "lost" }>;

/** The renewals of one grant in the other thread. */
export interface ThreadRenewals {
  /** Whether the other thread renews. This one then renews only what the other has left undone. */
  readonly isRunning: boolean;
  /** The latest answer, once, with the time before its request was sent. Also while this thread was blocked. */
  read(): { readonly sent: Instant; readonly answer: RenewalAnswer } | undefined;
  /** This thread has renewed the grant. Ignored after stop(). */
  renewed(sent: Instant, remainingMs: number): void;
  /** The grant is no longer to be renewed. */
  stop(): void;
}

export interface RenewalThread {
  /**
   * Renews the grant from now on.
   * @param wake called when this thread has to judge the lease anew
   */
  start(
    namespace: string,
    granted: GrantedLease,
    options: KeepOptions,
    wake: () => void,
  ): ThreadRenewals;
}

/** What a renewal thread needs; see ConnectOptions for each. */
export interface ThreadOptions {
  readonly url: string;
  readonly env: Env;
  readonly connectTimeoutMs: number | undefined;
  readonly maxBlockedMs: number;
}

/** The module renewal-thread/, which a program loads only if it asks for a thread. */
export interface ThreadModule {
  /** For both threads. */
  readonly processClock: Clock;
  /** @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED */
  startRenewalThread(options: ThreadOptions): Promise<StartedThread>;
}

export interface StartedThread extends RenewalThread {
  close(): Promise<void>;
}
