/**
 * The port between the client and the engines: what a store must offer.
 *
 * - Batch first: one outcome per request, in the order of the requests, each atomic on its own. The
 *   same key may stand several times in a batch; then it is decided in order.
 * - Failure is an outcome per request. A method throws only on misuse (a bug of the caller).
 * - Between machines travel durations; `expiresAt` is for people.
 *
 * Not in it: blocking waits, timers, retries, local time, callbacks, roles, election, atomicity over
 * several keys. Lease ids never come out of a store.
 */
import type { LeaseholdError } from "./errors.js";

/** What is leased: a resource of a namespace (the tenant), never joined into one string. */
export interface Key {
  readonly namespace: string;
  readonly resource: string;
}

/** One grant on a key, named by its lease id: a bearer secret chosen by the acquirer. */
export interface Grant extends Key {
  readonly leaseId: string;
}

/** How long a grant lasts, as the store computed it in the step that answered. */
export interface Term {
  /**
   * The duration that the last acquire or renewal asked for, or longer. A renewal never shortens a grant, so
   * after one with a shorter TTL `remainingMs` is larger.
   */
  readonly ttlMs: number;
  /** What is left of the grant by the store's clock: compute with this. */
  readonly remainingMs: number;
  /** Store time as ISO 8601, for people; null where the store has no clock of its own. */
  readonly expiresAt: string | null;
}

/** The request was not applied (`no`), or may have been (`maybe`). */
export interface Failed {
  readonly status: "failed";
  readonly applied: "no" | "maybe";
  readonly retryable: boolean;
  readonly error: LeaseholdError;
  /**
   * A server reports that the store behind it failed. The other outcomes of the batch must not wait for a
   * retry of this one, so the caller decides about a retry. See retrying.ts.
   */
  readonly passedOn?: true;
}

/** Asks for a grant. Repeated under the same lease id it returns the same grant, for as long as that lives. */
export interface AcquireRequest extends Grant {
  readonly holder: string;
  readonly ttlMs: number;
  /**
   * The caller waits, and attempts again within this time. If the request is refused, the store keeps a
   * queue position for that time and wakes the waiter. Releasing the lease id frees the position. See queue.ts.
   */
  readonly queueMs?: number;
  /** Stored with the grant and shown in lists. */
  readonly metadata?: string;
}

/** The answer to an acquire: the grant, who holds the resource, or a failure. */
export type AcquireOutcome =
  | ({
      readonly status: "acquired";
      /** 0 where the store has no tokens. */
      readonly token: number;
      /**
       * The ended grant that this one replaced: its last trace, for callers that keep a history and set
       * `returnReplaced`. Absent if there was none, in the answer to a repeated request, and from a remote store.
       */
      readonly replaced?: LeaseView;
    } & Term)
  | {
      readonly status: "held";
      readonly holder: string;
      /** Public name of the current grant; null if the engine does not know it, or the resource is reserved for a waiter. */
      readonly grantId: string | null;
      /** When to attempt again without a notification: the rest of the grant, plus the reservations of the waiters ahead. */
      readonly remainingMs: number | null;
      /** How many waiters are ahead of the caller, if the store queues. */
      readonly ahead?: number;
    }
  /** This lease id named a grant that has ended: it never comes back. */
  | { readonly status: "ended" }
  | Failed;

/** Extends a live grant to `ttlMs` milliseconds from now. */
export interface RenewRequest extends Grant {
  readonly ttlMs: number;
}

/** The answer to a renewal: the new term, why the grant is lost, or a failure. */
export type RenewOutcome =
  | ({ readonly status: "renewed"; readonly token: number } & Term)
  | { readonly status: "lost"; readonly reason: "expired" | "revoked" | "taken" | "gone" }
  | Failed;

/** Ends a grant of the caller. */
export type ReleaseRequest = Grant;

/** The answer to a release. `notHeld`: the grant had ended before. */
export type ReleaseOutcome = { readonly status: "released" | "notHeld" } | Failed;

/** Ends another holder's grant, which only operators do. */
export interface RevokeRequest extends Key {
  /** Refuse unless the live grant has this token: the operator meant that one. */
  readonly expectedToken?: number;
  /** `atExpiry` keeps exclusion; `now` frees at once, and only the fence protects. */
  readonly free: "atExpiry" | "now";
  /** For the audit of a server; stores keep none. */
  readonly reason?: string;
}

/**
 * The answer to a revocation: the token of the ended grant and when the resource is free, or why nothing was
 * revoked.
 */
export type RevokeOutcome =
  | { readonly status: "revoked"; readonly token: number; readonly freeInMs: number }
  | { readonly status: "notHeld" | "otherToken" }
  | Failed;

/** `live`, or how it ended. */
export type LeaseState = "live" | "expired" | "released" | "revoked";

/** A grant as people and lists see it: without its secret. */
export interface LeaseView extends Key {
  readonly holder: string;
  readonly grantId: string;
  readonly token: number;
  readonly state: LeaseState;
  /** The TTL of the last acquire or renewal. A renewal never shortens a grant, so `remainingMs` may be larger. */
  readonly ttlMs: number;
  /** Zero when it has ended. */
  readonly remainingMs: number;
  /**
   * Only of a revoked grant that still excludes others: in how many milliseconds the resource is free at
   * the latest, by the store's clock. Absent otherwise.
   */
  readonly freeInMs?: number;
  readonly grantedAt: string | null;
  readonly renewedAt: string | null;
  readonly expiresAt: string | null;
  readonly metadata: string | null;
}

/** Which leases of a namespace to list. */
export interface ListQuery {
  readonly namespace: string;
  /** Literal: no character in it is a wildcard. */
  readonly prefix?: string;
  /** Only grants in one of these states; default any. */
  readonly states?: readonly LeaseState[];
  /** Only grants that were renewed at least once; default false. */
  readonly renewedOnly?: boolean;
  /** Only grants of this holder. A store may leave this filter and the next two to its caller. */
  readonly holder?: string;
  /** Only live grants with at most this left. */
  readonly expiringWithinMs?: number;
  /** Only live grants that were made at least this long ago. */
  readonly heldForMs?: number;
  /**
   * At most this many; default 100. A store may end a page early if few match a filter: the page then has fewer,
   * or none, and still a cursor.
   */
  readonly limit?: number;
  /**
   * `nextCursor` of the page before, which is `cursorAfter` the last resource that it read. A store that is given other text
   * throws INVALID_OPTION, as `resourceOfCursor` does.
   */
  readonly cursor?: string;
}

/** One page of a list. Pass `nextCursor` as `cursor` for the next one; null: this page is the last. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
}

/** A notification: something may have changed. Subscribe first, then read. */
export type WatchEvent =
  | ({
      readonly type: "changed";
      /** Grant id of the waiter at the head of the queue; absent if the store does not know it. */
      readonly wakes?: string;
    } & Key)
  /** Events may have been missed, or the subscription has just begun: read everything again. */
  | { readonly type: "resync" };

/** What an engine promises; docs/guarantees.md says it in words. */
export interface Capabilities {
  /** Who measures expiry: the store, a session of the engine, or each contender by observation. */
  readonly clock: "store" | "session" | "observed";
  /** `bound`: a grant lives and dies with the client that took it. */
  readonly grants: "portable" | "bound";
  readonly ttl: { readonly minMs: number; readonly maxMs: number; readonly stepMs: number };
  /** Whether waiters of different processes are served first in, first out. */
  readonly queue: boolean;
  readonly watch: "push" | "poll";
  /** A free resource is obtainable this long after its expiry at the latest. */
  readonly epsilonMs: number;
  /**
   * How many requests of a batch cost as much as a call, in processor time; default 16. Where so many
   * callers wait, no call takes fewer.
   */
  readonly callCost?: number;
  /**
   * Whether its grants have fencing tokens; default true. Where they have none the port's tokens are
   * 0, no token may be expected in a revoke, and `lease.token` throws NO_TOKEN.
   */
  readonly tokens?: boolean;
}

/** Options of a call to a store. */
export interface CallOptions {
  /** The caller stops waiting after this time; a store answers `failed` by then. Default: the store's own timeout. */
  readonly timeoutMs?: number;
  /** Whether acquires return the grant they `replaced`; default false. A store may always return it if that is cheap. */
  readonly returnReplaced?: boolean;
}

/**
 * The port of leases: what an engine offers to the client. Each request of a batch is atomic on its own, and
 * failures are outcomes.
 */
export interface LeaseStore {
  readonly capabilities: Capabilities;
  acquire(requests: readonly AcquireRequest[], options?: CallOptions): Promise<AcquireOutcome[]>;
  renew(requests: readonly RenewRequest[], options?: CallOptions): Promise<RenewOutcome[]>;
  release(requests: readonly ReleaseRequest[], options?: CallOptions): Promise<ReleaseOutcome[]>;
  revoke(requests: readonly RevokeRequest[], options?: CallOptions): Promise<RevokeOutcome[]>;
  /** The last grant of each key, ended ones included until they are collected; null if none. */
  get(keys: readonly Key[]): Promise<(LeaseView | null)[]>;
  /** Ordered by resource, byte by byte. */
  list(query: ListQuery): Promise<Page<LeaseView>>;
  /**
   * Notifications about a namespace until the signal aborts. The first event is a `resync`, sent once the
   * subscription is established. Where `capabilities.watch` is `poll`, that is the only event.
   */
  watch(namespace: string, options: { signal: AbortSignal }): AsyncIterable<WatchEvent>;
  /** Deletes grants that ended more than `olderThanMs` ago, keeping tokens increasing; how many. */
  collect(olderThanMs: number): Promise<number>;
  close(): Promise<void>;
}
