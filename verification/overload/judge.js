/**
 * What an overload has shown. Where the server was not overloaded, nothing was.
 * @param {{ lost: number, because?: object, refused: number, offeredPerSecond: number, capacityPerSecond: number }} figures
 * @returns {string | null} what is wrong
 */
export function wrongWith({ lost, because, refused, offeredPerSecond, capacityPerSecond }) {
  if (lost > 0) return `leases were lost: ${JSON.stringify(because)}`;
  const isOverloaded = refused > 0 && offeredPerSecond > 2 * capacityPerSecond;
  return isOverloaded ? null : "the server was not overloaded";
}

/**
 * What an attack has shown: with the protection no lease is lost, without it some are, unless it takes memory only or what
 * protects has no switch.
 * @param {{ attack: string, lost: number, because?: object, unprotected: boolean, takes?: "memory", lasting?: boolean }} figures
 * @returns {string | null} what is wrong
 */
export function wrongWithAttack({ attack, lost, because, unprotected, takes, lasting }) {
  if (unprotected) {
    if (takes === "memory" || lasting) return null;
    return lost > 0 ? null : `${attack}: no lease was lost, so the protection was not tested`;
  }
  return lost > 0 ? `${attack}: leases were lost: ${JSON.stringify(because)}` : null;
}
