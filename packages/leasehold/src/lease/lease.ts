// For users whose `lib` lacks it, as ES2022 and DOM do.
/// <reference lib="esnext.disposable" preserve="true" />
/** What a holder has in hand: the public types of a lease, with a fencing token or without. */
import type { GrantId, LeaseId } from "../env/index.js";
import type { LostReason } from "./errors.js";

/** Called with the reason when a lease is lost. */
export type LostHandler = (reason: LostReason) => void;

/**
 * The members that every lease has.
 * @example
 * ```ts
 * import { connect } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const lease = await leasehold.acquire("billing", { ttlMs: 10_000 });
 * const unsubscribe = lease.onLost((reason) => console.log("stop:", reason));
 * await lease.renew({ ttlMs: 60_000 });
 * if (lease.checkAlive()) console.log("ours for", lease.remainingMs(), "ms");
 * unsubscribe();
 * await lease.release();
 * await leasehold.close();
 * ```
 */
export interface HeldResource extends AsyncDisposable {
  /** What is leased. */
  readonly resource: string;
  /** The holder: the `holder` of the client. */
  readonly holder: string;
  /** Aborts when the lease is lost (reason: LEASE_LOST) or its client closes (reason: CLOSED). */
  readonly signal: AbortSignal;
  /** Milliseconds for which the holder may still trust the lease; 0 when it is lost or released. */
  remainingMs(): number;
  /**
   * Whether the holder may go on, by its own clocks alone: no round trip, and never stale. Ends the lease at
   * once when its trusted time has passed. Call it before each step that must not be done twice.
   */
  checkAlive(): boolean;
  /**
   * Calls `handler` once, with the reason, when the lease is lost; soon, if it is lost already. A handler
   * that throws stops no other.
   * @returns a function that unsubscribes
   */
  onLost(handler: LostHandler): () => void;
  /**
   * Renews now, beside the automatic renewal.
   * @param options.ttlMs the lease lasts this long from now on, or longer. Default: the `ttlMs` that it was
   *   acquired with
   * @throws LEASE_LOST when the store refuses; STORE_UNAVAILABLE when the outcome is unknown: the lease then
   *   stands until its trusted time passes; CLOSED when it was released; INVALID_OPTION
   */
  renew(options?: { ttlMs?: number }): Promise<void>;
  /**
   * Releases the resource. The holder's trust ends before the store is asked. Later calls return the same
   * promise. A lost lease is released too, unless its loss says that the store has ended it.
   * @throws STORE_UNAVAILABLE when the store did not confirm: the lease then expires by itself
   */
  release(): Promise<void>;
}

/**
 * An exclusive right to a resource, until it is lost or released. Made by `leasehold.run`, `acquire` and
 * `tryAcquire`.
 * @example
 * ```ts
 * import { connect } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const lease = await leasehold.acquire("billing");
 * if (lease.checkAlive()) console.log(lease.resource, lease.grantId, lease.token);
 * await lease.release();
 * await leasehold.close();
 * ```
 */
export interface Lease extends HeldResource {
  /** Distinguishes it from an {@link UnfencedLease}. */
  readonly isFenced: true;
  /**
   * The fencing token: a safe integer that grows with every grant of the resource. Pass it to what you
   * protect, which refuses a token smaller than the largest it has seen.
   */
  readonly token: number;
  /** Identifies this grant for ever. A secret: with it anyone can renew and release the lease. */
  readonly leaseId: LeaseId;
  /** The public name of this grant, for logs and lists. */
  readonly grantId: GrantId;
}

/**
 * A lease without a fencing token, so that nothing protects a resource from a holder that was paused past its
 * lease. There are two kinds:
 * - `isExclusive: true`: a store without tokens granted it (`connect(url, { unfenced: true })`);
 * - `isExclusive: false`: the store was unavailable and the caller chose `onUnavailable: "unfenced"`. It excludes
 *   no one, never expires, and ends when its client closes.
 * @example
 * ```ts
 * import { connect } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * await leasehold.run("cache", { onUnavailable: "unfenced" }, (lease) => {
 *   console.log(lease.isFenced ? lease.token : `exclusive: ${lease.isExclusive}`);
 * });
 * await leasehold.close();
 * ```
 */
export interface UnfencedLease extends HeldResource {
  /** Distinguishes it from a {@link Lease}. */
  readonly isFenced: false;
  /** Whether the store granted the resource to this holder alone. */
  readonly isExclusive: boolean;
}

/** What the work of `run` may be given. */
export type AnyLease = Lease | UnfencedLease;
