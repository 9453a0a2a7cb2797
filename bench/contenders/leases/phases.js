// What every contender for leases on PostgreSQL can do, and the order in which a round does it.

/**
 * @typedef {object} LeaseContender
 * @property {(names: readonly string[]) => Promise<void>} acquire
 * @property {() => Promise<void>} renew all that were acquired
 * @property {() => Promise<void>} release
 * @property {() => Promise<void>} close
 */

/** @typedef {"acquire" | "renew" | "release" | "acquireAgain"} Phase */

/**
 * Acquires, renews, releases and acquires again, all of the names, and measures each of these phases.
 * @template Measured
 * @param {LeaseContender} side
 * @param {readonly string[]} names that were never acquired
 * @param {(work: () => Promise<void>) => Promise<Measured>} measure
 * @returns {Promise<Record<Phase, Measured>>}
 */
export async function phasesOf(side, names, measure) {
  const acquire = await measure(() => side.acquire(names));
  const renew = await measure(() => side.renew());
  const release = await measure(() => side.release());
  const acquireAgain = await measure(() => side.acquire(names));
  await side.release();
  return { acquire, renew, release, acquireAgain };
}

/** @param {string} prefix @param {number} count */
export function namesOf(prefix, count) {
  return Array.from({ length: count }, (_, at) => `${prefix}-${at}`);
}
