/**
 * Which leases the calling code runs under, so that a run within a run of one resource is refused instead
 * of waiting for itself. A map of the held leases cannot tell: a concurrent caller may well wait.
 */
import type { Env, Scope } from "../env/index.js";
import type { HeldLease } from "./held-lease.js";

/** The lease that code runs under, and the one around it. */
interface Under {
  readonly lease: HeldLease;
  readonly outer: Under | undefined;
}

export class Nesting {
  readonly #env: Env;
  /** Made at the first run: programs that use none do not pay for it. */
  #scope: Scope<Under> | undefined;

  constructor(env: Env) {
    this.#env = env;
  }

  /** Calls the work under the lease. */
  run<T>(lease: HeldLease, work: () => T): T {
    this.#scope ??= this.#env.newScope?.<Under>();
    if (!this.#scope) return work();
    return this.#scope.run({ lease, outer: this.#scope.getStore() }, work);
  }

  /** Whether the calling code runs under this lease, which then ends after it. */
  isUnder(lease: HeldLease | undefined): boolean {
    for (let at = this.#scope?.getStore(); at; at = at.outer) if (at.lease === lease) return true;
    return false;
  }
}
