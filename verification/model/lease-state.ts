/** What the run of a program of leases knows: its calls, the leases that it has been given, and the book. */
import type { Lease } from "leasehold";
import type { Granted, LeaseBook } from "./lease-book.js";
import { type Client, type Site, SLICE_MS } from "./site.js";

export const RESOURCES = ["first", "second"];
export const GRACE_MS = 300;
/** One way there and one back, and a slice in which it is noticed. */
export const PROMPT_MS = 8;
export const NOTICED_MS = PROMPT_MS + 2 * SLICE_MS;
export const REASON = new Error("the program aborts");

/** An acquire that is under way. */
export interface Call {
  readonly client: Client;
  readonly resource: string;
  readonly isQueued: boolean;
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly autoRenew: boolean;
  readonly sinceMs: number;
  /** Among all calls. */
  readonly number: number;
  readonly controller: AbortController;
  isAborted: boolean;
  /** Since when nothing but time keeps it from the resource, as seen after each slice. */
  eligibleSinceMs: number;
  /** Since when it is the first of its client, and contends with others. */
  headSinceMs: number;
}

/** A lease that a program has been given. */
export interface Held {
  readonly client: Client;
  readonly lease: Lease;
  readonly granted: Granted;
  readonly autoRenew: boolean;
  renewEveryMs: number;
  readonly reasons: string[];
  /** When it was lost or released. */
  overAtMs: number;
  isReleased: boolean;
  /** When its release was called first. */
  releasedAtMs: number;
  /** When its release was answered first. Until then, its client's callers queue behind it. */
  answeredAtMs: number;
}

export interface LeaseState {
  readonly site: Site;
  readonly book: LeaseBook;
  readonly calls: Set<Call>;
  readonly held: Held[];
}
