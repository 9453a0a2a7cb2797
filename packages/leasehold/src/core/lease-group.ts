/**
 * Several leases as one: all or none.
 *
 * They are taken one after the other, in one order for everybody (that of the bytes of the resources).
 * So nobody can wait for what another holds who waits for what it holds itself. What is held already
 * is renewed while the rest is waited for; if one of them is lost meanwhile, all are given back, and it
 * begins anew.
 */
import { InvalidOptionError, LeaseUnavailableError } from "./errors.js";
import type { HeldLease } from "./held-lease.js";

export class LeaseGroup implements AsyncDisposable {
  /** Aborts when the first of them is lost (LEASE_LOST), or the client closes (CLOSED). */
  readonly signal: AbortSignal;

  /** @param leases in the order in which they were asked for */
  constructor(readonly leases: readonly HeldLease[]) {
    this.signal = AbortSignal.any(leases.map(({ signal }) => signal));
  }

  /** Whether the holder may go on with all of them; see HeldLease. */
  checkAlive(): boolean {
    // Each settles its own loss.
    return this.leases.map((lease) => lease.checkAlive()).every(Boolean);
  }

  /**
   * Gives all of them back, at once.
   * @throws STORE_UNAVAILABLE when one was not confirmed: the first such error, when all have answered
   */
  async release(): Promise<void> {
    const results = await Promise.allSettled(this.leases.map((lease) => lease.release()));
    const failed = results.find((result) => result.status === "rejected");
    if (failed) throw failed.reason;
  }

  /** Releases; what is not confirmed is logged. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.leases.map((lease) => lease[Symbol.asyncDispose]()));
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
      const all = new LeaseGroup(leases);
      if (all.checkAlive()) return all;
      if (leftMs() <= 0) throw lostMeanwhile(leases);
    } catch (error) {
      await giveBack(taken);
      throw error;
    }
    await giveBack(taken);
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

/** The last first: whoever waits for several waits for the first of them. */
async function giveBack(taken: ReadonlyMap<string, HeldLease>): Promise<void> {
  for (const lease of [...taken.values()].reverse()) await lease[Symbol.asyncDispose]();
}

function lostMeanwhile(leases: readonly HeldLease[]): Error {
  const lost = leases.find(({ lostError }) => lostError)?.lostError;
  return lost ?? new LeaseUnavailableError(leases[0]?.resource ?? "", 0, "others");
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
