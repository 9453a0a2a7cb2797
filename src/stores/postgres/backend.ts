import type { Sql } from "./query.js";

/** A running subscription to our channel. */
export interface Subscription {
  /** Rejects when the session is dead; engines in this process need none. */
  check?(): Promise<void>;
  stop(): Promise<void>;
}

/** What differs between a server's URL, the user's pool and PGlite. */
export interface Backend {
  /** For people: no password in it. */
  readonly name: string;
  /** Everything but renewals and releases. */
  readonly general: Sql;
  /** Renewals and releases: no crowd of acquirers may hold them up. */
  readonly control: Sql;
  /**
   * Null where no connection can be kept for it.
   * @param onLost called at most once, when the subscription that this has resolved with ended
   *   without stop()
   */
  readonly listen:
    | ((
        onPayload: (payload: string) => void,
        onLost: (error: Error) => void,
      ) => Promise<Subscription>)
    | null;
  /** From now on: connections are sessions of our own, and may keep statements prepared. */
  prepare?(): void;
  close(): Promise<void>;
}

/** All our notifications; what they are about stands in the payload. */
export const CHANNEL = "leasehold";
