/**
 * Waits until the queues of a worker are empty: no task that it takes is due there, and none runs, here or elsewhere. While
 * tasks run here, nothing is read: the next read is when the last of them has ended.
 */
import { type Env, jittered, sleep } from "../env/index.js";
import { type Abort, LeaseholdError, TimedOutError } from "../lease/index.js";
import type { TaskStatsQuery, TaskStore } from "./port.js";

/** Between two reads, doubled each time. */
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1_000;

interface Drained
  extends Required<Pick<TaskStatsQuery, "namespace" | "queues" | "kinds" | "versions">> {
  readonly store: Pick<TaskStore, "stats">;
  readonly env: Env;
  /** Resolves when no task runs here. */
  readonly idle: () => Promise<void>;
}

/**
 * @param abort ends the wait
 * @throws TIMED_OUT, caused by the last error of a store that does not answer; the reason of the abort
 */
export async function drained(
  { store, env: { clock, random }, idle, ...where }: Drained,
  timeoutMs: number,
  abort: Abort,
): Promise<void> {
  let failure: LeaseholdError | undefined;
  const timeOut = () => {
    const what = `the queues ${where.queues.join(", ")} have not been empty`;
    abort.abort(new TimedOutError(what, timeoutMs, failure));
  };
  const timer =
    timeoutMs === Number.POSITIVE_INFINITY ? undefined : clock.timer(timeoutMs, timeOut);
  try {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      await abort.race(idle());
      try {
        // One task that is left is enough.
        const query = { ...where, unfinishedOnly: true, limit: 1 };
        const { items } = await abort.race(store.stats(query));
        failure = undefined;
        if (items.every(({ due, running }) => due + running === 0)) return;
      } catch (error) {
        abort.throwIfAborted();
        if (!(error instanceof LeaseholdError) || !error.retryable) throw error;
        failure = error;
      }
      await sleep(clock, jittered(random, pauseMs, 0.25), { signal: abort.signal });
    }
  } finally {
    timer?.cancel();
  }
}
