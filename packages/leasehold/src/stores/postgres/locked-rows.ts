/** How the stores retry requests whose rows another transaction has locked. */
import { type Clock, sleep } from "../../env/index.js";

/**
 * A row that changed since the read is decided by an immediate new read. A lock is usually that of a
 * late acquire or claim: it locked a row that it had seen free, finds it taken, and releases the lock
 * when its statement ends. A transaction that holds a row longer than all these pauses is not a batch
 * of a store.
 */
const PAUSES_MS = [0, 0, 5, 10, 20, 40];

/**
 * Retries until every request is decided, with pauses that add up to 75 ms.
 * @param ask returns the undecided requests
 * @returns the requests still undecided at the end
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
