/**
 * What becomes of work whose lease cannot be asked for, because the store does not answer.
 *
 *   wait ───────▶ asks again, until it answers or `waitMs` is over
 *   fail ───────▶ STORE_UNAVAILABLE after the first attempt
 *   unprotected ▶ the work runs after the first attempt, with an UnfencedLease
 *
 * An attempt has been settled when it fails: a grant that it may have made is given back. So nobody
 * waits for work that runs unprotected, or has been dropped, longer than for a dead holder.
 */

import { InvalidOptionError, NoTokenError } from "./errors.js";
import type { HeldLease } from "./held-lease.js";
import type { AcquireOptions } from "./options.js";

/** What `run` does while the store does not answer; see `onUnavailable`. */
export type OnUnavailable = "wait" | "fail" | "unfenced";

/** Options of `run` and `tryRun`. */
export interface RunOptions<Policy extends OnUnavailable = OnUnavailable> extends AcquireOptions {
  /**
   * What to do when the store does not answer. `wait`: ask again within `waitMs`, the default of `run`.
   * `fail`: reject with STORE_UNAVAILABLE once the first attempt has failed, which takes half of
   * `ttlMs`, and 5 seconds at most; the default of `tryRun`, which never waits. `unprotected`: do the
   * work then although nobody excludes others; it is given an UnfencedLease. A lease that is held
   * when the store goes away ends at its trusted time, whatever is said here.
   */
  onUnavailable?: Policy;
}

/** What the work of `run` does with its lease. */
export type Work<T, L = HeldLease> = (lease: L) => T | PromiseLike<T>;

/** In place of a lease: nobody is excluded, not even other work of this process. */
export class UnfencedLease {
  /** Tells it from a HeldLease, whose `isFenced` is true. */
  readonly isFenced = false;

  /** @internal */
  constructor(
    /** What would have been leased. */
    readonly resource: string,
    /** Who would have held it: the client's `holder`. */
    readonly holder: string,
    /** Aborts when the client closes (reason: CLOSED), and never otherwise. */
    readonly signal: AbortSignal,
  ) {}

  /**
   * There is none: what is guarded by a token cannot be written to without a lease.
   * @throws NO_TOKEN
   */
  get token(): never {
    throw new NoTokenError(
      this.resource,
      "the store was unavailable and the work runs unprotected",
      "ask lease.isFenced first, and leave alone what is guarded",
    );
  }

  /** Whether to go on: until the client closes. It says nothing of others. */
  checkAlive(): boolean {
    return !this.signal.aborted;
  }
}

/** What the work may be given. */
export type AnyLease = HeldLease | UnfencedLease;

/** Of `run` and `tryRun`, after the resource. */
export type WorkArguments<T> =
  | [Work<T>]
  | [RunOptions<"wait" | "fail">, Work<T>]
  | [RunOptions, Work<T, AnyLease>];

/**
 * The arguments after the resource, told apart.
 * @param policies that make sense, the default first
 * @throws INVALID_OPTION
 */
export function workArguments<T>(rest: WorkArguments<T>, policies: readonly OnUnavailable[]) {
  const [given, work] = rest.length === 1 ? [{}, rest[0]] : rest;
  // Options may be passed through that nobody has given.
  const { onUnavailable = policies[0], ...options }: RunOptions = given ?? {};
  if (typeof work !== "function") throw new InvalidOptionError("work", "must be a function");
  if (!onUnavailable || !policies.includes(onUnavailable)) {
    const known = policies.map((policy) => `"${policy}"`).join(" or ");
    throw new InvalidOptionError("onUnavailable", `must be ${known} here`);
  }
  // Work for a HeldLease alone comes without "unfenced": the overloads see to it.
  return { options, onUnavailable, work: work as Work<T, AnyLease> };
}
