/** So many callers, each with one request under way, use all that a server can do. */
export const CALLERS = 256;
const MANY_WAITING = 10 * CALLERS;

/**
 * What an overload has shown. Where the server was not overloaded, nothing was: it must have received twice as many requests as
 * it can serve and refused some, or have kept many callers waiting. It answers few refusals at a time.
 * @param {{ lost: number, because?: object, refused: number, offeredPerSecond: number, capacityPerSecond: number, waiting: number }} figures
 * @returns {string | null} what is wrong
 */
export function wrongWith({ lost, because, refused, waiting, ...rates }) {
  if (lost > 0) return `leases were lost: ${JSON.stringify(because)}`;
  const isBeyond = refused > 0 && rates.offeredPerSecond > 2 * rates.capacityPerSecond;
  return isBeyond || waiting >= MANY_WAITING ? null : "the server was not overloaded";
}

/**
 * What an attack has shown: with the protection no lease is lost, and without it some are, where the attack costs any.
 * @param {{ attack: string, lost: number, because?: object, unprotected: boolean, costs: boolean }} figures
 * @returns {string | null} what is wrong
 */
export function wrongWithAttack({ attack, lost, because, unprotected, costs }) {
  if (!unprotected) {
    return lost > 0 ? `${attack}: leases were lost: ${JSON.stringify(because)}` : null;
  }
  return lost > 0 || !costs
    ? null
    : `${attack}: no lease was lost, so the protection was not tested`;
}
