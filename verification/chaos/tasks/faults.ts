/** What is done to the processes while they work. */
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "leasehold";
import type { SupervisedWorker } from "./processes.js";

export interface FaultTally {
  kills: number;
  /** Past the lease. */
  pauses: number;
}

/** One fault a second on average: at times no worker may be hit. */
const EVERY_MS = 800;
const RETRY_MS = 50;
/** Leaves workers that take over, also on a machine that is slow to restart killed ones. */
const LEAST_LEFT = 2;

/**
 * About every second kills a worker or stops it for 1.2 to 1.6 times its ttl, for as long as the
 * signal lets it. Resolves when those that were stopped have been continued.
 */
export async function hitWorkers(
  workers: readonly SupervisedWorker[],
  random: Random,
  signal: AbortSignal,
): Promise<FaultTally> {
  const tally: FaultTally = { kills: 0, pauses: 0 };
  const pauses: Promise<void>[] = [];
  while (!signal.aborted) {
    const working = workers.filter((worker) => worker.working);
    const victim = working[Math.floor(random.float() * working.length)];
    if (!victim || working.length <= LEAST_LEFT) {
      await sleep(RETRY_MS, signal);
    } else if (random.float() < 0.5) {
      tally.kills += 1;
      await victim.kill();
      await sleep(EVERY_MS, signal);
    } else {
      tally.pauses += 1;
      pauses.push(victim.pause(victim.settings.ttlMs * (1.2 + 0.4 * random.float())));
      await sleep(EVERY_MS, signal);
    }
  }
  await Promise.all(pauses);
  return tally;
}

/** Shorter when the signal aborts. */
function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return delay(ms, undefined, { signal }).catch(() => {});
}
