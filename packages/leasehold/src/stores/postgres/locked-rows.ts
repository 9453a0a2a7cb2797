/** How the stores ask again about rows that somebody else has locked. */
import { type Clock, sleep } from "../../env/index.js";

/**
 * What has changed since it was read is decided by a new read, at once. What is locked mostly is so by
 * an acquire or a claim that came too late: it locks the row that it has seen free, finds it taken,
 * and lets go of it at the end of its own statement. Who holds a row longer than all these pauses is
 * no batch of ours.
 */
const PAUSES_MS = [0, 0, 5, 10, 20, 40];

/**
 * Asks until nothing is left, with pauses that add up to 75 ms.
 * @param ask returns what is still undecided
 * @returns what still is in the end
 */
export async function askAgain<Entry>(
  clock: Clock,
  entries: readonly Entry[],
  ask: (entries: readonly Entry[]) => Promise<readonly Entry[]>,
): Promise<readonly Entry[]> {
  let open = entries;
  for (const pauseMs of PAUSES_MS) {
    if (open.length === 0) break;
    if (pauseMs > 0) await sleep(clock, pauseMs);
    open = await ask(open);
  }
  return open;
}
