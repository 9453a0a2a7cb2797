/**
 * Several leases as one: all or none.
 *
 * They are acquired one after the other, in the byte order of their resources, which is the same for every client. So
 * no two callers can each hold what the other waits for. Those already acquired are renewed while the rest is waited
 * for; if one of them is lost meanwhile, all are released, and acquiring starts over.
 */
import { InvalidOptionError } from "./errors.js";
import type { HeldLease } from "./held-lease.js";
import type { Lease } from "./lease.js";

let groupOf: (leases: readonly HeldLease[]) => LeaseGroup;

/**
 * The leases of one `leasehold.acquireAll`: all of them are held, or none.
 * @example
 * ```ts
 * import { connect } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const group = await leasehold.acquireAll(["account-1", "account-2"]);
 * if (group.checkAlive()) console.log(group.leases.map(({ token }) => token));
 * await group.release();
 * await leasehold.close();
 * ```
 */
export class LeaseGroup<L = Lease> implements AsyncDisposable {
  static {
    groupOf = (leases) => new LeaseGroup(leases);
  }

  /** Aborts when the first of them is lost (LEASE_LOST), or the client closes (CLOSED). */
  readonly signal: AbortSignal;

  readonly #held: readonly HeldLease[];

  private constructor(held: readonly HeldLease[]) {
    this.#held = held;
    this.signal = AbortSignal.any(held.map(({ signal }) => signal));
  }

  /** In the order in which they were asked for. */
  get leases(): readonly L[] {
    return this.#held as readonly unknown[] as readonly L[];
  }

  /** Whether the holder may go on with all of them; see `Lease.checkAlive`. */
  checkAlive(): boolean {
    // Every one, so that each notices its own loss.
    return this.#held.map((lease) => lease.checkAlive()).every(Boolean);
  }

  /**
   * Releases all of them at once.
   * @throws STORE_UNAVAILABLE when one was not confirmed: the first such error, when all have answered
   */
  async release(): Promise<void> {
    const results = await Promise.allSettled(this.#held.map((lease) => lease.release()));
    const failed = results.find((result) => result.status === "rejected");
    if (failed) throw failed.reason;
  }

  /** Releases all; an unconfirmed release is logged. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#held.map((lease) => lease[Symbol.asyncDispose]()));
  }
}

/**
 * @param acquire takes one, waiting at most so many milliseconds
 * @param leftMs of the time to wait for all of them
 */
export async function acquireInOrder(
  resources: readonly string[],
  acquire: (resource: string, waitMs: number) => Promise<HeldLease>,
  leftMs: () => number,
): Promise<LeaseGroup> {
  const ordered = [...resources].sort(byBytes);
  for (;;) {
    const taken = new Map<string, HeldLease>();
    try {
      for (const resource of ordered) {
        taken.set(resource, await acquire(resource, Math.max(0, leftMs())));
      }
      const leases = resources.map((resource) => taken.get(resource) as HeldLease);
      const all = groupOf(leases);
      if (all.checkAlive()) return all;
      const lost = leases.find(({ lostError }) => lostError)?.lostError;
      if (lost && leftMs() <= 0) throw lost;
    } catch (error) {
      await releaseAll(taken);
      throw error;
    }
    await releaseAll(taken);
  }
}

/** @throws INVALID_OPTION */
export function checkResources(resources: readonly string[]): void {
  const given: unknown = resources;
  if (!Array.isArray(given) || given.length === 0) {
    throw new InvalidOptionError("resources", "must be an array of at least one name");
  }
  if (new Set(given).size < given.length) {
    throw new InvalidOptionError(
      "resources",
      "must name each resource once: it would wait for itself",
    );
  }
}

/** Releases the last lease first: a contender for several resources waits for the first of them. */
async function releaseAll(taken: ReadonlyMap<string, HeldLease>): Promise<void> {
  for (const lease of [...taken.values()].reverse()) await lease[Symbol.asyncDispose]();
}

/** Of UTF-8, which is that of code points. */
function byBytes(a: string, b: string): number {
  const [left, right] = [Array.from(a), Array.from(b)];
  for (const [at, character] of left.entries()) {
    const other = right[at];
    if (other === undefined) return 1;
    if (character !== other) return (character.codePointAt(0) ?? 0) - (other.codePointAt(0) ?? 0);
  }
  return left.length - right.length;
}
