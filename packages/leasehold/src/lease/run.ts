/**
 * What `run` and `tryRun` do when the store is unavailable.
 *
 *   wait ─────▶ retry until the store answers or `waitMs` is over
 *   fail ─────▶ STORE_UNAVAILABLE after the first attempt
 *   unfenced ─▶ the work runs after the first attempt, with an UnfencedLease
 *
 * A failed attempt is settled: a grant that it may have made is released. So contenders never wait longer for work
 * that runs unfenced, or was dropped, than for a dead holder.
 */

import { InvalidOptionError, NoTokenError } from "./errors.js";
import type { AnyLease, Lease, UnfencedLease } from "./lease.js";
import { type AcquireOptions, checkFunction, checkObject } from "./options.js";

/** What `run` does while the store does not answer; see `onUnavailable`. */
export type OnUnavailable = "wait" | "fail" | "unfenced";

/** Options of `run` and `tryRun`. */
export interface RunOptions<Policy extends OnUnavailable = OnUnavailable> extends AcquireOptions {
  /**
   * What to do while the store is unavailable. `wait`: retry within `waitMs`, the default of `run`. `fail`:
   * reject with STORE_UNAVAILABLE when the first attempt has failed, which takes half of `ttlMs`, and 5 seconds
   * at most; the default of `tryRun`, which never waits. `unfenced`: run the work then, although nothing excludes
   * others; it gets an UnfencedLease. A lease that is held when the store becomes unavailable ends at its
   * trusted time in any case.
   */
  onUnavailable?: Policy;
}

/** What the work of `run` does with its lease. */
export type Work<T, L = Lease> = (lease: L) => T | PromiseLike<T>;

/** What work runs under while the store is unavailable: an {@link UnfencedLease} that excludes no one. */
export class NoLease implements UnfencedLease {
  readonly isFenced = false;
  readonly isExclusive = false;

  constructor(
    readonly resource: string,
    readonly holder: string,
    /** Aborts when the client closes. */
    readonly signal: AbortSignal,
  ) {}

  /** Not in the type. JavaScript callers that pass it on to a guard fail here instead of there. */
  get token(): never {
    throw new NoTokenError(
      this.resource,
      "the store was unavailable and the work runs unfenced",
      "check lease.isFenced first, and do not write to what is guarded",
    );
  }

  remainingMs(): number {
    return this.checkAlive() ? Number.POSITIVE_INFINITY : 0;
  }

  checkAlive(): boolean {
    return !this.signal.aborted;
  }

  onLost(): () => void {
    return () => {};
  }

  async renew(): Promise<void> {}

  async release(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** Of `run` and `tryRun`, after the resource. */
export type WorkArguments<T, L = AnyLease> = [Work<T, L>] | [RunOptions, Work<T, L>];

/**
 * Separates the options from the work among the arguments after the resource.
 * @param policies that make sense, the default first
 * @throws INVALID_OPTION
 */
export function workArguments<T, L>(rest: WorkArguments<T, L>, policies: readonly OnUnavailable[]) {
  const [given, work] = rest.length === 1 ? [{}, rest[0]] : rest;
  // A wrapper may pass on options that its own caller left out.
  checkFunction("work", work);
  checkObject("options", given ?? {});
  const { onUnavailable = policies[0], ...options }: RunOptions = given ?? {};
  if (!onUnavailable || !policies.includes(onUnavailable)) {
    const known = policies.map((policy) => `"${policy}"`).join(" or ");
    throw new InvalidOptionError("onUnavailable", `must be ${known} here`);
  }
  // Work for a Lease alone comes without "unfenced": the overloads of Leasehold see to it.
  return { options, onUnavailable, work: work as Work<T, L | NoLease> };
}
