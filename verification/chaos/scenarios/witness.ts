/**
 * What holders write to, in this process, which no failover of a database touches: a register behind a
 * fence, and the control, which takes whatever comes. Who is whose predecessor it knows from the order in
 * which grants were made, not from their tokens, because tokens are what is put to the test.
 */
export interface Grant {
  readonly resource: string;
  readonly token: number;
  /** Later ones have a larger one. */
  readonly order: number;
}

interface Register {
  lastToken: number;
  /** Of the last write that was taken. */
  fencedOrder: number;
  unfencedOrder: number;
}

export class Witness {
  /** Grants whose token is not larger than every earlier one of their resource. */
  smallerTokens = 0;
  /** What the fence refused. */
  refused = 0;
  /** Writes of an older holder that were taken after a newer one's. */
  fencedViolations = 0;
  unfencedViolations = 0;
  largestToken = 0;
  readonly #largest = new Map<string, number>();
  readonly #registers = new Map<string, Register>();
  #grants = 0;

  /** As the report counts it. */
  get seen() {
    const { smallerTokens, refused, fencedViolations, unfencedViolations } = this;
    return { smallerTokens, refusedWrites: refused, fencedViolations, unfencedViolations };
  }

  granted({ resource, token }: { readonly resource: string; readonly token: number }): Grant {
    if (token <= (this.#largest.get(resource) ?? 0)) this.smallerTokens += 1;
    this.#largest.set(resource, Math.max(token, this.#largest.get(resource) ?? 0));
    this.largestToken = Math.max(this.largestToken, token);
    this.#grants += 1;
    return { resource, token, order: this.#grants };
  }

  /** To both registers. @returns whether the fence let it pass */
  write({ resource, token, order }: Grant): boolean {
    const register = this.#registers.get(resource) ?? {
      lastToken: 0,
      fencedOrder: 0,
      unfencedOrder: 0,
    };
    this.#registers.set(resource, register);
    if (order < register.unfencedOrder) this.unfencedViolations += 1;
    register.unfencedOrder = order;
    if (token < register.lastToken) {
      this.refused += 1;
      return false;
    }
    if (order < register.fencedOrder) this.fencedViolations += 1;
    register.lastToken = token;
    register.fencedOrder = order;
    return true;
  }
}
