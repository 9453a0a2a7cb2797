/**
 * Verifications of the audit chain, one at a time: the chain may be long, and its read continues if the client
 * disconnects. Tenants wait for each other, and each has one: so none keeps the others from theirs.
 */
import type { Clock } from "leasehold";
import { type Control, type Verification, verifyAudit } from "leasehold/internal";
import { tooMany } from "../problems.js";

type Chain = Control["audit"];
type Wanted = Parameters<typeof verifyAudit> extends [unknown, ...infer Rest] ? Rest : never;

export class Verifications {
  readonly #clock: Clock;
  /** The tenants whose verification has not ended. */
  readonly #tenants = new Set<string>();
  /** Settles when the last one does. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @throws OVERLOADED if the tenant has one already */
  async verify(
    audit: Chain,
    namespace: string,
    wanted: Wanted,
    timeoutMs: number,
  ): Promise<Verification> {
    if (this.#tenants.has(namespace)) {
      throw tooMany("capacity", "this tenant already verifies the chain", 1_000);
    }
    this.#tenants.add(namespace);
    const untilMs = this.#clock.monotonic() + timeoutMs;
    const begin = () => {
      if (this.#clock.monotonic() < untilMs) return verifyAudit(audit, ...wanted);
      throw tooMany("capacity", "other verifications of the chain took too long", 1_000);
    };
    const verdict = this.#last.then(begin).finally(() => this.#tenants.delete(namespace));
    this.#last = verdict.catch(() => {});
    return verdict;
  }
}
