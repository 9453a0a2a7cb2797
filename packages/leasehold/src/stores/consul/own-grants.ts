/** The grants and waiters of this client, which end at their own expiry: the session would keep them. */
import type { Grant } from "../../core/index.js";
import type { Own } from "../../core/own.js";
import type { Place } from "./keys.js";

export interface OwnGrant {
  readonly id: string;
  /** Includes the lease id, which proves the right to the grant. */
  readonly grant: Grant;
  /** Expiry by this process's monotonic clock. */
  untilMs: number;
  /** By the wall clock. */
  renewedAt?: string;
  /** Its answer was lost: it may be made until then, or never. Null if it is known to be made. */
  readonly lateUntilMs: number | null;
  /**
   * This client has asked to end it. The request may take effect late, whatever was answered: from then on the grant is over,
   * and neither a renewal nor a repeated request may bring it back. A new grant of the lease id is another entry, as its
   * acquire does not overlap the request.
   */
  isEnding: boolean;
}
export type OwnGrants = Own<OwnGrant>;

/** Identifies a grant, or the waiter for it. */
export function ownId({ folder }: Place, identity: string): string {
  return folder + identity;
}

/** Whether its time is over, or this client ends it. */
export function isOver({ isEnding, untilMs }: OwnGrant, atMs: number): boolean {
  return isEnding || untilMs <= atMs;
}
